// Operators and autograd functions of the user.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// ---- Operators --------------------------------------------------------------------------------

std::string& log_text() {
  static std::string text;
  return text;
}

at::Tensor scaled(const at::Tensor& x, double scale) { return (x * scale).contiguous(); }
at::Tensor scaled_like(const at::Tensor& x, double /*scale*/) {
  return at::empty(x.sizes(), x.options());
}
at::Tensor& add_one_(at::Tensor& x) { return x.add_(1); }
void accumulate(const at::Tensor& into, const at::Tensor& x) { into.add_(x); }
void note(const at::Tensor& x) { log_text() += std::to_string(x.sum().item<float>()) + "; "; }
std::tuple<at::Tensor, at::Tensor> both_ends(const at::Tensor& x) {
  return {x.min().clone(), x.max().clone()};
}
at::Tensor logged(const at::Tensor& x) {
  log_text() += "logged " + std::to_string(x.sum().item<float>()) + "; ";
  return x.clone();
}
at::Tensor logged_meta(const at::Tensor& x) { return at::empty_like(x); }
// Sees the strides of its argument.
at::Tensor strides_of(const at::Tensor& x) {
  auto out = at::empty({x.dim()}, x.options());
  for (int64_t d = 0; d < x.dim(); ++d) {
    out.mutable_data_ptr<float>()[d] = static_cast<float>(x.stride(d));
  }
  return out;
}
at::Tensor strides_meta(const at::Tensor& x) { return at::empty({x.dim()}, x.options()); }
at::Tensor flattened(const at::Tensor& x) { return x.contiguous().view(-1).clone(); }
at::Tensor flattened_meta(const at::Tensor& x) { return at::empty({x.numel()}, x.options()); }
at::Tensor composite(const at::Tensor& x) { return x.sin() * x; }

class Scaled : public Function<Scaled> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& x, double scale) {
    ctx->saved_data["scale"] = scale;
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("antegrad_exact::scaled", "")
                               .typed<at::Tensor(const at::Tensor&, double)>();
    return op.call(x, scale);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0] * ctx->saved_data["scale"].toDouble(), Variable()};
  }
};
at::Tensor scaled_autograd(const at::Tensor& x, double scale) { return Scaled::apply(x, scale); }

TORCH_LIBRARY(antegrad_exact, m) {
  m.def("scaled(Tensor x, float scale) -> Tensor");
  m.def("scaled_without_shape(Tensor x, float scale) -> Tensor");
  m.def("add_one_(Tensor(a!) x) -> Tensor(a!)");
  m.def("accumulate(Tensor(a!) into, Tensor x) -> ()");
  m.def("note(Tensor x) -> ()");
  m.def("both_ends(Tensor x) -> (Tensor, Tensor)");
  m.def("logged(Tensor x) -> Tensor");
  m.def("own_strides(Tensor x) -> Tensor", {at::Tag::needs_fixed_stride_order});
  m.def("any_strides(Tensor x) -> Tensor", {at::Tag::flexible_layout});
  m.def("composite(Tensor x) -> Tensor", composite);
}
TORCH_LIBRARY_IMPL(antegrad_exact, CPU, m) {
  m.impl("scaled", scaled);
  m.impl("scaled_without_shape", scaled);
  m.impl("add_one_", add_one_);
  m.impl("accumulate", accumulate);
  m.impl("note", note);
  m.impl("both_ends", both_ends);
  m.impl("logged", logged);
  m.impl("own_strides", strides_of);
  m.impl("any_strides", flattened);
}
TORCH_LIBRARY_IMPL(antegrad_exact, Meta, m) {
  m.impl("scaled", scaled_like);
  m.impl("logged", logged_meta);
  m.impl("own_strides", strides_meta);
  m.impl("any_strides", flattened_meta);
}
TORCH_LIBRARY_IMPL(antegrad_exact, Autograd, m) { m.impl("scaled", scaled_autograd); }

template <class Signature, class... Args>
auto call(const char* name, Args&&... args) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow((std::string("antegrad_exact::") + name).c_str(), "")
                      .typed<Signature>();
  return op.call(std::forward<Args>(args)...);
}
at::Tensor call_scaled(const char* name, const at::Tensor& x, double scale) {
  return call<at::Tensor(const at::Tensor&, double)>(name, x, scale);
}
void call_note(const at::Tensor& x) { call<void(const at::Tensor&)>("note", x); }

World watched(List inputs) {
  World w;
  w.inputs = std::move(inputs);
  log_text().clear();
  w.observe = [] { return log_text(); };
  return w;
}

Cases operators() {
  return {
      {"an operator with shape function and derivative", leaves({{2, 3}}),
       [](const List& a) -> List { return {call_scaled("scaled", a[0], 2.5).exp()}; }},
      {"an operator without shape function", plains({{2, 3}}),
       [](const List& a) -> List { return {call_scaled("scaled_without_shape", a[0].t(), 2)}; }},
      {"an operator without derivative", leaves({{3}}),
       [](const List& a) -> List {
         return {call_scaled("scaled_without_shape", a[0], 2), a[0] * 2};
       },
       refused<CaptureError>("custom operators with a kernel for autograd")},
      {"an operator in place", plains({{3}}),
       [](const List& a) -> List {
         auto x = a[0];
         call<at::Tensor&(at::Tensor&)>("add_one_", x);
         return {x * 2};
       }},
      {"an operator that writes an intermediate", plains({{3}, {3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         call<void(const at::Tensor&, const at::Tensor&)>("accumulate", y, a[1]);
         call<void(const at::Tensor&, const at::Tensor&)>("accumulate", a[0], y);
         return {y};
       }},
      {"an operator with effects", [] { return watched({buffer({3})}); },
       [](const List& a) -> List {
         call_note(a[0]);
         const auto y = a[0] * 2;
         call_note(y);
         call_note(a[0]);
         return {y};
       }},
      {"an effect on a tensor that is written", [] { return watched({buffer({3})}); },
       [](const List& a) -> List {
         call_note(a[0]);
         a[0].add_(1);
         call_note(a[0]);
         return {};
       }},
      {"an operator that wants the strides of its arguments", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {call<at::Tensor(const at::Tensor&)>("own_strides", (a[0].t() * 2).detach()),
                 a[0] * 1};
       }},
      {"an operator that takes any strides", plains({{2, 3}}),
       [](const List& a) -> List {
         return {call<at::Tensor(const at::Tensor&)>("any_strides", a[0].t())};
       }},
      {"an operator with declared effects whose result nobody uses",
       [] { return watched({buffer({3})}); },
       [](const List& a) -> List {
         static const bool once = [] {
           declare_effects("antegrad_exact::logged");
           return true;
         }();
         if (once) call<at::Tensor(const at::Tensor&)>("logged", a[0]);
         call_note(a[0]);
         call<at::Tensor(const at::Tensor&)>("logged", a[0] * 2);
         return {a[0] + 1};
       }},
      {"an operator with two results", plains({{4}}),
       [](const List& a) -> List {
         const auto [low, high] =
             call<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>("both_ends", a[0]);
         return {high - low, low};
       }},
      {"a composite operator", leaves({{3}}),
       [](const List& a) -> List {
         return {call<at::Tensor(const at::Tensor&)>("composite", a[0])};
       }},
  };
}

// ---- Autograd functions -----------------------------------------------------------------------

struct Cube : Function<Cube> {
  static Variable forward(AutogradContext* ctx, const Variable& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto x = ctx->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};

struct SavedResult : Function<SavedResult> {
  static Variable forward(AutogradContext* ctx, const Variable& x) {
    auto y = x.exp();
    ctx->save_for_backward({y});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

struct HostData : Function<HostData> {
  static Variable forward(AutogradContext* ctx, const Variable& x, int64_t power,
                          const std::string& name) {
    ctx->saved_data["power"] = power;
    ctx->saved_data["name"] = name;
    ctx->save_for_backward({x});
    return x.pow(power);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto x = ctx->get_saved_variables()[0];
    const auto power = ctx->saved_data["power"].toInt();
    const double factor = ctx->saved_data["name"].toStringRef() == "half" ? 0.5 : 1.0;
    return {grads[0] * factor * power * x.pow(power - 1), Variable(), Variable()};
  }
};

struct Dirty : Function<Dirty> {
  static Variable forward(AutogradContext* ctx, Variable x) {
    x.mul_(3);
    ctx->mark_dirty({x});
    return x;
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {grads[0] * 3};
  }
};

struct TwoResults : Function<TwoResults> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, const Variable& y) {
    ctx->save_for_backward({x, y});
    ctx->set_materialize_grads(false);
    return {x * y, x + y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    variable_list out(2);
    if (grads[0].defined()) out = {grads[0] * saved[1], grads[0] * saved[0]};
    if (!grads[1].defined()) return out;
    for (auto& g : out) g = g.defined() ? g + grads[1] : grads[1] * 1;
    return out;
  }
};

struct NotDifferentiable : Function<NotDifferentiable> {
  static variable_list forward(AutogradContext* ctx, const Variable& x) {
    const auto values = x * 2;
    const auto order = x.argmax();
    const auto sign = x.sign();
    ctx->mark_non_differentiable({order, sign});
    return {values, order, sign};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {grads[0] * 2};
  }
};

struct NoGradient : Function<NoGradient> {
  static Variable forward(AutogradContext* /*ctx*/, const Variable& x, const Variable& y) {
    return x * 2 + y;
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {Variable(), grads[0]};
  }
};

struct ReversedGradient : Function<ReversedGradient> {
  static Variable forward(AutogradContext* /*ctx*/, const Variable& x) { return x.view_as(x); }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {-grads[0]};
  }
};

struct RandomBackward : Function<RandomBackward> {
  static Variable forward(AutogradContext* /*ctx*/, const Variable& x) { return x + at::rand({3}); }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {grads[0] * at::rand({3})};
  }
};

struct Identity : Function<Identity> {
  static Variable forward(AutogradContext* /*ctx*/, const Variable& x) { return x; }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& grads) {
    return {grads[0] * 0.5};
  }
};

struct Throws : Function<Throws> {
  static Variable forward(AutogradContext* /*ctx*/, const Variable& x) { return x * 2; }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*grads*/) {
    throw std::domain_error("no derivative here");
  }
};

Cases functions() {
  return {
      {"an autograd function", leaves({{3}}),
       [](const List& a) -> List { return {Cube::apply(a[0])}; }},
      {"an autograd function of an intermediate", leaves({{3}}),
       [](const List& a) -> List {
         return {Cube::apply(a[0].exp()).sum(), a[0].sin()};
       }},
      {"an autograd function that saves its result", leaves({{3}}),
       [](const List& a) -> List { return {SavedResult::apply(a[0])}; }},
      {"an autograd function with host data", leaves({{3}}),
       [](const List& a) -> List {
         return {HostData::apply(a[0], 3, "half"), HostData::apply(a[0], 2, "full")};
       }},
      {"an autograd function marks its input dirty", leaves({{3}}),
       [](const List& a) -> List { return {Dirty::apply(a[0] * 1)}; }},
      refusing_gradient_of("input 0",
                           {"an autograd function marks an argument dirty", nonleaves({{3}}),
                            [](const List& a) -> List { return {Dirty::apply(a[0]) + 1}; }}),
      {"an autograd function with undefined tangents", leaves({{3}, {3}}),
       [](const List& a) -> List { return TwoResults::apply(a[0], a[1]); }},
      {"an autograd function with one result in use", leaves({{3}, {3}}),
       [](const List& a) -> List { return {TwoResults::apply(a[0], a[1])[1].exp()}; }},
      {"an autograd function with results without gradient", leaves({{3}}),
       [](const List& a) -> List { return NotDifferentiable::apply(a[0]); }},
      {"an autograd function that gives no gradient", leaves({{3}, {3}}),
       [](const List& a) -> List { return {NoGradient::apply(a[0], a[1])}; }},
      {"gradient reversal", leaves({{3}}),
       [](const List& a) -> List { return {ReversedGradient::apply(a[0] * 2) + a[0]}; }},
      {"gradient reversal of an argument", leaves({{3}}),
       [](const List& a) -> List { return {ReversedGradient::apply(a[0])}; }},
      {"an autograd function that returns its argument", leaves({{3}}),
       [](const List& a) -> List { return {Identity::apply(a[0])}; }},
      {"an autograd function that draws in its backward", leaves({{3}}),
       [](const List& a) -> List { return {RandomBackward::apply(a[0])}; }},
      {"an autograd function on plain tensors", plains({{3}}),
       [](const List& a) -> List { return {Cube::apply(a[0])}; }},
      {"an autograd function with a backward that throws", leaves({{3}}),
       [](const List& a) -> List { return {Throws::apply(a[0])}; },
       backward_throws("no derivative here")},
  };
}

}  // namespace

Cases custom_cases() {
  auto all = operators();
  for (auto& c : functions()) all.push_back(std::move(c));
  return all;
}

}  // namespace antegrad::testing
