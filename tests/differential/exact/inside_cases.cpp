// antegrad/inside.h: constants from host data, gradients inside, opaque code. Outside of a capture
// each runs directly, which is the eager run here.

#include "differential/exact/cases.h"

#include <torch/types.h>

namespace antegrad::testing {
namespace {

Opaque doubled(bool with_backward) {
  Opaque code;
  code.name = with_backward ? "exact::doubled" : "exact::doubled_without_backward";
  code.compute = [](const List& in) -> List {
    auto out = at::empty(in[0].sizes(), in[0].options());
    const auto x = in[0].contiguous();
    for (int64_t i = 0; i < x.numel(); ++i) {
      out.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i];
    }
    return {out};
  };
  code.shapes = [](const List& in) -> List { return {at::empty(in[0].sizes(), in[0].options())}; };
  if (with_backward) {
    code.backward = [](const List& in) -> List {
      return {in[1].defined() ? in[1] * 2 : at::Tensor()};
    };
  }
  return code;
}

}  // namespace

Cases inside_cases() {
  return {
      {"ag::constant of torch::tensor", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0] * constant([] { return torch::tensor({1.0F, 2.0F, 3.0F}); })};
       }},
      {"ag::constant of values", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0] * constant(std::vector<float>{1, 2, 3}),
                 a[0].index_select(0, constant(std::vector<int64_t>{2, 0}))};
       }},
      {"ag::constant of from_blob", leaves({{3}}),
       [](const List& a) -> List {
         static float values[] = {1, 2, 3};
         return {a[0] * constant([] { return at::from_blob(values, {3}).clone(); })};
       }},
      {"ag::constant whose data changes", leaves({{3}}),
       [](World& w, const List& a) -> List {
         const auto value = static_cast<float>(++w.counter);
         return {a[0] * constant(std::vector<float>{value, 1, 1})};
       },
       refused<HostStateError>("")},
      {"a constant is written", leaves({{3}}),
       [](const List& a) -> List {
         const auto c = constant(std::vector<float>{1, 2, 3}).clone();
         c.add_(1);
         return {a[0] * c, c};
       }},
      {"ag::grad of an argument", leaves({{3}}),
       [](const List& a) -> List {
         return {grad({a[0].exp().sum()}, {a[0]})[0], a[0] * 2};
       }},
      {"a gradient penalty by ag::grad", leaves({{3}, {3}}),
       [](const List& a) -> List {
         const auto y = (a[0] * a[1]).tanh().sum();
         const auto g = grad({y}, {a[0]}, {}, std::nullopt, /*create_graph=*/true)[0];
         return {y + g.pow(2).sum()};
       }},
      {"a gradient penalty with respect to a held weight",
       [] {
         World w;
         w.inputs = {buffer({2, 3})};
         w.held = {leaf({3, 3})};
         return w;
       },
       [](World& w, const List& a) -> List {
         const auto y = a[0].mm(w.held[0]).tanh().sum();
         const auto g = grad({y}, {w.held[0]}, {}, std::nullopt, /*create_graph=*/true)[0];
         return {y + g.norm()};
       }},
      {"ag::grad with tangents and an unused input", leaves({{3}, {3}}),
       [](const List& a) -> List {
         const auto y = a[0].sin();
         return grad({y}, {a[0], a[1]}, {at::full({3}, 2.0)}, std::nullopt, false,
                     /*allow_unused=*/true);
       }},
      {"ag::grad of an unused input", leaves({{3}, {3}}),
       [](const List& a) -> List { return grad({a[0].sum()}, {a[1]}); },
       call_throws("not have been used in the graph")},
      {"ag::grad of what needs no grad", plains({{3}}),
       [](const List& a) -> List { return grad({a[0].sum()}, {a[0]}); },
       call_throws("does not require grad")},
      {"ag::opaque with a backward", leaves({{2, 3}}),
       [](const List& a) -> List { return {opaque(doubled(true), {a[0].exp()})[0].sin()}; }},
      {"ag::opaque without a backward", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {opaque(doubled(false), {a[0]})[0], a[0] * 2};
       }},
      {"ag::opaque of a transposed argument", leaves({{2, 3}}),
       [](const List& a) -> List { return {opaque(doubled(true), {a[0].t()})[0]}; }},
      {"ag::opaque whose result nobody uses", leaves({{3}}),
       [](const List& a) -> List {
         opaque(doubled(true), {a[0]});
         return {a[0] * 2};
       }},
  };
}

}  // namespace antegrad::testing
