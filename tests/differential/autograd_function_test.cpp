// torch::autograd::Function inside the callable. Its apply() bypasses the dispatcher.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "support/parity.h"

namespace antegrad::testing {
namespace autograd_function_test {

using List = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::Function;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

// A wrong derivative on purpose, so that only the custom backward can give it.
struct SavesTensors : Function<SavesTensors> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y) {
    auto z = x * y;
    context->save_for_backward({x, y, z});
    return z;
  }
  static List backward(AutogradContext* context, List grads) {
    const auto saved = context->get_saved_variables();
    return {grads[0] * saved[1] + saved[2], grads[0] * saved[0] * 2};
  }
};

struct Doubles : Function<Doubles> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x * 2; }
  static List backward(AutogradContext* /*context*/, List grads) { return {grads[0] * 2}; }
};

struct SavesData : Function<SavesData> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double by,
                            int64_t shift) {
    context->saved_data["by"] = by;
    context->saved_data["shift"] = shift;
    return x * by + shift;
  }
  static List backward(AutogradContext* context, List grads) {
    return {grads[0] * context->saved_data["by"].toDouble() + context->saved_data["shift"].toInt(),
            at::Tensor(), at::Tensor()};
  }
};

struct MarksDirty : Function<MarksDirty> {
  static at::Tensor forward(AutogradContext* context, at::Tensor x) {
    x.mul_(3);
    context->mark_dirty({x});
    return x;
  }
  static List backward(AutogradContext* /*context*/, List grads) { return {grads[0] * 5}; }
};

struct NotDifferentiable : Function<NotDifferentiable> {
  static List forward(AutogradContext* context, const at::Tensor& x) {
    auto y = x * 2, rank = x.argsort(), raw = x + 1;
    context->mark_non_differentiable({rank, raw});
    return {y, rank, raw};
  }
  static List backward(AutogradContext* /*context*/, List grads) { return {grads[0] * 7}; }
};

struct SeesUndefined : Function<SeesUndefined> {
  static List forward(AutogradContext* context, const at::Tensor& x) {
    context->set_materialize_grads(false);
    return {x * 2, x * 3};
  }
  static List backward(AutogradContext* /*context*/, List grads) {
    at::Tensor sum;
    if (grads[0].defined()) sum = grads[0] * 10;
    if (grads[1].defined()) sum = sum.defined() ? sum + grads[1] * 100 : grads[1] * 100;
    return {sum};
  }
};

struct GivesUndefined : Function<GivesUndefined> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x,
                            const at::Tensor& y) {
    return x * y;
  }
  static List backward(AutogradContext* /*context*/, List grads) {
    return {grads[0] * 4, at::Tensor()};
  }
};

struct Case {
  const char* name;
  // Over two vectors of the same size.
  std::function<List(const at::Tensor&, const at::Tensor&)> fn;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"saved tensors",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         return {SavesTensors::apply(x, y).sum()};
       }},
      {"saved data",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         return {(SavesData::apply(x, 2.5, 3) * y).sum()};
       }},
      {"mark_dirty of an intermediate",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         return {(MarksDirty::apply(x * y) * y).sum()};
       }},
      {"non-differentiable outputs",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         auto outs = NotDifferentiable::apply(x);
         EXPECT_FALSE(outs[2].requires_grad());
         return {(outs[0] * outs[2] * y).sum(), outs[1]};
       }},
      {"undefined gradients come in",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         return {(SeesUndefined::apply(x)[1] * y).sum()};
       }},
      {"undefined gradients go out",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         return {GivesUndefined::apply(x, y).sum() + y.sum()};
       }},
      {"several in a row",
       [](const at::Tensor& x, const at::Tensor& y) -> List {
         auto z = SavesTensors::apply(SavesData::apply(x, 0.5, 1), y);
         return {z, SeesUndefined::apply(z)[0]};
       }},
  };
  return all;
}

class AutogradFunction : public ::testing::TestWithParam<size_t> {};

TEST_P(AutogradFunction, OnArguments) {
  const auto& c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  torch::manual_seed(1);
  expect_function_parity([&](const List& a) { return c.fn(a[0], a[1]); }, {leaf({3}), leaf({3})});
}

// apply() connects its node to the tensors that it gets: here real ones that no operator has seen
// before.
TEST_P(AutogradFunction, OnTensorsHeldByClosure) {
  const auto& c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  torch::manual_seed(1);
  const auto x = leaf({3}), y = leaf({3});
  const auto gradients = [&](auto& callable) {
    List tangents, roots;
    for (const auto& r : callable(at::ones({}))) {
      if (!r.requires_grad()) continue;
      roots.push_back(r);
      tangents.push_back(at::full_like(r, 1.5));
    }
    auto found = torch::autograd::grad(roots, {x, y}, tangents, std::nullopt, false, true);
    for (auto& g : found) g = g.defined() ? g.clone() : g;
    return found;
  };
  const auto fn = [&](const at::Tensor& scale) {
    auto results = c.fn(x, y);
    results[0] = results[0] * scale;
    return results;
  };
  auto step = antegrad::compile(fn);
  const auto expected = gradients(fn);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(gradients(step), expected));
  EXPECT_EQ(step.report().eager_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(All, AutogradFunction, ::testing::Range<size_t>(0, cases().size()));

// The edge of the function leads to the parameter itself, that of the other use to its stand-in.
// Both gradients add up.
TEST(AutogradFunction, AParameterIsUsedByAFunctionAndByAnOperator) {
  const auto w = leaf({3});
  const auto fn = [&](const at::Tensor& x) { return Doubles::apply(w) * x + w.sin(); };
  const auto x = at::randn({3});
  fn(x).sum().backward();
  const auto eager = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  auto step = antegrad::compile(fn);
  step(x).sum().backward();
  EXPECT_TRUE(same_bits(w.grad(), eager));
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace autograd_function_test
}  // namespace antegrad::testing
