// Custom code inside a compiled callable: operators, autograd functions, host data, code that reads
// data pointers, gradients inside the function. Each part runs eagerly and compiled; the program
// fails if the results differ.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

namespace {

using List = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;

// ---- an operator: a kernel, a Meta kernel that tells its shape, a derivative --------------------

at::Tensor softsign(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mylib::softsign", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

at::Tensor softsign_cpu(const at::Tensor& x) { return x / (x.abs() + 1); }
at::Tensor softsign_meta(const at::Tensor& x) { return at::empty_like(x); }

struct Softsign : torch::autograd::Function<Softsign> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return softsign(x);
  }
  static List backward(AutogradContext* context, List grads) {
    const auto x = context->get_saved_variables()[0];
    return {grads[0] / (x.abs() + 1).square()};
  }
};

at::Tensor softsign_autograd(const at::Tensor& x) { return Softsign::apply(x); }

// ---- an operator that writes an argument, and one that acts on the world ------------------------

void track_cpu(at::Tensor mean, const at::Tensor& x, double rate) { mean.lerp_(x.mean(0), rate); }

void track(const at::Tensor& mean, const at::Tensor& x, double rate) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mylib::track", "")
                             .typed<void(at::Tensor, const at::Tensor&, double)>();
  op.call(mean, x, rate);
}

std::vector<std::string>& journal() {
  static std::vector<std::string> lines;
  return lines;
}

at::Tensor tap_cpu(const at::Tensor& x, const std::string& name) {
  journal().push_back(name + " has " + std::to_string(x.gt(0).sum().item<int64_t>()) + " above 0");
  return x.clone();
}
at::Tensor tap_meta(const at::Tensor& x, const std::string& /*name*/) { return at::empty_like(x); }

at::Tensor tap(const at::Tensor& x, const std::string& name) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mylib::tap", "")
                             .typed<at::Tensor(const at::Tensor&, const std::string&)>();
  return op.call(x, name);
}

}  // namespace

TORCH_LIBRARY(mylib, m) {
  m.def("softsign(Tensor x) -> Tensor");
  m.def("track(Tensor(a!) mean, Tensor x, float rate) -> ()");
  m.def("tap(Tensor x, str name) -> Tensor");
  antegrad::declare_effects("mylib::tap");  // returns a value, but must not be removed
}
TORCH_LIBRARY_IMPL(mylib, CPU, m) {
  m.impl("softsign", softsign_cpu);
  m.impl("track", track_cpu);
  m.impl("tap", tap_cpu);
}
TORCH_LIBRARY_IMPL(mylib, Meta, m) {
  m.impl("softsign", softsign_meta);
  m.impl("tap", tap_meta);
}
TORCH_LIBRARY_IMPL(mylib, Autograd, m) {
  m.impl("softsign", softsign_autograd);
  m.impl("tap", torch::autograd::autogradNotImplementedFallback());
}
// Increments the version counter, so that autograd detects a write to a tensor saved before.
TORCH_LIBRARY_IMPL(mylib, ADInplaceOrView, m) {
  m.impl("track", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}

namespace {

// ---- an autograd function: nothing to register --------------------------------------------------

struct RoundStraightThrough : torch::autograd::Function<RoundStraightThrough> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double step) {
    context->saved_data["step"] = step;  // host values become constants of the program
    return (x / step).round() * step;
  }
  static List backward(AutogradContext* /*context*/, List grads) {
    return {grads[0], at::Tensor()};  // none for `step`
  }
};

// ---- code that reads data pointers --------------------------------------------------------------

// The first element of each row above `threshold`, or 0: a loop for which libtorch has no operator.
antegrad::Opaque first_above(float threshold) {
  const auto position = [threshold](const float* row, int64_t width) {
    int64_t i = 0;
    while (i < width && row[i] <= threshold) ++i;
    return i;
  };
  antegrad::Opaque code;
  code.name =
      "first_above_" + std::to_string(threshold);  // another threshold is another computation
  code.compute = [position](const List& in) -> List {
    const auto x = in[0].contiguous();
    auto out = at::zeros({x.size(0)}, x.options());
    for (int64_t r = 0; r < x.size(0); ++r) {
      const auto* row = x.const_data_ptr<float>() + r * x.size(1);
      const auto i = position(row, x.size(1));
      if (i < x.size(1)) out.mutable_data_ptr<float>()[r] = row[i];
    }
    return {out};
  };
  code.shapes = [](const List& in) -> List {
    return {at::empty({in[0].size(0)}, in[0].options())};
  };
  code.backward = [position](const List& in) -> List {  // inputs, then gradients of outputs
    const auto x = in[0].contiguous(), tangent = in[1].contiguous();
    auto grad = at::zeros_like(x);
    for (int64_t r = 0; r < x.size(0); ++r) {
      const auto i = position(x.const_data_ptr<float>() + r * x.size(1), x.size(1));
      if (i == x.size(1)) continue;
      grad.mutable_data_ptr<float>()[r * x.size(1) + i] = tangent.const_data_ptr<float>()[r];
    }
    return {grad};
  };
  return code;
}

// ---- eager and compiled side by side ------------------------------------------------------------

// The outcome of a step: loss, gradients, written buffers.
template <class Step>
List run(Step& step, const at::Tensor& x, const List& leaves, const List& buffers) {
  List seen;
  for (int i = 0; i < 4; ++i) {
    auto loss = step(x);
    loss.backward();
    seen.push_back(loss.detach());
  }
  for (const auto& leaf : leaves) {
    seen.push_back(leaf.grad().clone());
    leaf.mutable_grad() = at::Tensor();
  }
  for (const auto& buffer : buffers) {
    seen.push_back(buffer.clone());
    buffer.zero_();
  }
  return seen;
}

bool failed = false;

template <class Fn>
void compare(const std::string& title, Fn fn, const List& leaves, const List& buffers = {}) {
  const auto x = torch::randn({8, 16});
  auto step = antegrad::compile(fn, antegrad::Options().with_name(title));
  const auto eager = run(fn, x, leaves, buffers);
  const auto lines = std::exchange(journal(), {});
  const auto compiled = run(step, x, leaves, buffers);
  bool same = std::exchange(journal(), {}) == lines && step.report().eager_calls == 0;
  for (size_t i = 0; i < eager.size(); ++i) same = same && eager[i].equal(compiled[i]);
  failed = failed || !same;
  std::cout << (same ? "same as eager: " : "DIFFERENT:     ") << title << "\n";
}

}  // namespace

int main() {
  torch::manual_seed(0);
  torch::nn::Linear layer(16, 16);
  const auto w = layer->weight;
  const auto mean = torch::zeros({16});

  compare("an operator with a derivative",
          [&](const at::Tensor& x) { return softsign(layer->forward(x)).sum(); }, {w});

  compare("an operator that writes a buffer",
          [&](const at::Tensor& x) {
            const auto y = layer->forward(x);
            track(mean, y.detach(), 0.1);
            return (y - mean).square().mean();
          },
          {w}, {mean});

  compare("an operator with effects",
          [&](const at::Tensor& x) {
            const auto y = layer->forward(x);
            tap(y.detach(), "before");
            const auto z = y.relu();
            tap(z.detach(), "after");
            return z.sum();
          },
          {w});

  compare("an autograd function",
          [&](const at::Tensor& x) {
            const auto rounded = RoundStraightThrough::apply(w, 0.25);
            return x.matmul(rounded).square().mean();
          },
          {w});

  const std::vector<float> window(16, 1.0F / 16);
  compare("host data",
          [&](const at::Tensor& x) {
            const auto weights = antegrad::constant(window);
            const auto positions = antegrad::constant([] { return torch::tensor({0, 2, 4}); });
            return (layer->forward(x) * weights).index_select(1, positions).sum();
          },
          {w});

  compare("code that reads data pointers",
          [&](const at::Tensor& x) {
            return antegrad::opaque(first_above(0.5F), {layer->forward(x)})[0].sum();
          },
          {w});

  compare("a gradient penalty",
          [&](const at::Tensor& x) {
            const auto loss = layer->forward(x).tanh().square().mean();
            const auto grad =
                antegrad::grad({loss}, {w}, {}, std::nullopt, /*create_graph=*/true)[0];
            return loss + 0.1 * grad.norm();
          },
          {w});
  return failed ? 1 : 0;
}
