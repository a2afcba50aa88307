// Structures of tensors and host values as arguments and results.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "differential/exact/cases.h"

namespace antegrad::testing {

struct Pair {
  at::Tensor x, y;
  double scale = 1;
};
struct Nested {
  Pair pair;
  std::vector<at::Tensor> rest;
  std::optional<at::Tensor> mask;
};

}  // namespace antegrad::testing

template <>
struct antegrad::tree<antegrad::testing::Pair>
    : antegrad::tree_of_members<&antegrad::testing::Pair::x, &antegrad::testing::Pair::y,
                                &antegrad::testing::Pair::scale> {};
template <>
struct antegrad::tree<antegrad::testing::Nested>
    : antegrad::tree_of_members<&antegrad::testing::Nested::pair, &antegrad::testing::Nested::rest,
                                &antegrad::testing::Nested::mask> {};

namespace antegrad::testing {
namespace {

using Tensor = at::Tensor;
using Dictionary = std::map<std::string, Tensor>;

// Arguments x, y of the world's first two inputs.
std::tuple<Tensor, Tensor> both(const World& w) { return {w.inputs[0], w.inputs[1]}; }
std::tuple<Tensor> first(const World& w) { return {w.inputs[0]}; }

}  // namespace

Cases structure_cases() {
  const auto two = leaves({{3}, {3}});
  const auto three = leaves({{3}, {3}, {3}});
  enum class Mode { sum, product };
  return {
      {"two tensors and a tensor", two,
       Body(both, [](World&, const Tensor& x, const Tensor& y) { return x * y; })},
      {"a pair of results", two,
       Body(both,
            [](World&, const Tensor& x, const Tensor& y) { return std::pair(x.exp(), x * y); })},
      {"a tuple with a view and an argument", two,
       Body(both,
            [](World&, const Tensor& x, const Tensor& y) {
              return std::tuple(x.view({3, 1}), y, x * y);
            })},
      {"an array of results", two,
       Body(both,
            [](World&, const Tensor& x, const Tensor& y) {
              return std::array<Tensor, 3>{x, y * 2, x + y};
            })},
      {"no result", plains({{3}, {3}}),
       Body(both, [](World&, const Tensor& x, const Tensor& y) { x.add_(y); })},
      {"host values among the results", two,
       Body(both,
            [](World&, const Tensor& x, const Tensor& y) {
              return std::tuple(x * y, int64_t{42}, std::string("words"), x.dim() == 1, 2.5);
            })},
      {"host values alone", two,
       Body(both, [](World&, const Tensor& x, const Tensor&) { return x.size(0); })},
      {"numbers and strings as arguments", two,
       Body(
           [](const World& w) {
             return std::tuple(w.inputs[0], 2.5, int64_t{3}, true, std::string("sin"));
           },
           [](World&, const Tensor& x, double scale, int64_t power, bool negate,
              const std::string& name) {
             const auto y = x.pow(power) * scale;
             return (negate ? -y : y) + (name == "sin" ? x.sin() : x.cos());
           })},
      {"a number that differs from call to call",
       two,
       Body([](const World& w) { return std::tuple(w.inputs[0], w.counter); },
            [](World&, const Tensor& x, int64_t counter) { return x * counter; }),
       equal(),
       {},
       [](World& w, int64_t call) { w.counter = call; }},
      {"an enumeration as argument", two,
       Body([](const World& w) { return std::tuple(w.inputs[0], w.inputs[1], Mode::product); },
            [](World&, const Tensor& x, const Tensor& y, Mode mode) {
              return mode == Mode::sum ? x + y : x * y;
            })},
      {"an optional that is there", two,
       Body(
           [](const World& w) {
             return std::tuple(w.inputs[0], std::optional<Tensor>(w.inputs[1]));
           },
           [](World&, const Tensor& x, const std::optional<Tensor>& y) { return y ? x * *y : x; })},
      {"an optional that is not there", leaves({{3}}),
       Body([](const World& w) { return std::tuple(w.inputs[0], std::optional<Tensor>()); },
            [](World&, const Tensor& x, const std::optional<Tensor>& y) {
              return y ? x * *y : x * 2;
            })},
      {"optional results", leaves({{3}}),
       Body(first,
            [](World&, const Tensor& x) {
              return std::pair(std::optional<Tensor>(x * 2), std::optional<Tensor>());
            })},
      {"a dictionary as argument", two,
       Body(
           [](const World& w) {
             return std::tuple(Dictionary{{"x", w.inputs[0]}, {"y", w.inputs[1]}});
           },
           [](World&, const Dictionary& d) { return d.at("x") * d.at("y"); })},
      {"a dictionary as result", two,
       Body(both,
            [](World&, const Tensor& x, const Tensor& y) {
              return Dictionary{{"loss", (x * y).sum()}, {"logits", x + y}, {"input", x}};
            })},
      {"an unordered dictionary", two,
       Body(
           [](const World& w) {
             return std::tuple(std::unordered_map<std::string, Tensor>{{"x", w.inputs[0]}});
           },
           [](World&, const std::unordered_map<std::string, Tensor>& d) {
             return std::unordered_map<std::string, Tensor>{{"y", d.at("x") * 2}};
           })},
      {"a struct as argument and result", two,
       Body(
           [](const World& w) {
             return std::tuple(Pair{w.inputs[0], w.inputs[1], 3.0});
           },
           [](World&, const Pair& p) {
             return Pair{p.x * p.scale, p.y.view({1, 3}), p.scale * 2};
           })},
      {"a struct of structs", three,
       Body(
           [](const World& w) {
             return std::tuple(Nested{{w.inputs[0], w.inputs[1], 0.5}, {w.inputs[2]}, {}});
           },
           [](World&, const Nested& n) {
             Nested out{{n.pair.x * n.pair.y, n.pair.x, 1}, {}, n.rest[0] * 2};
             for (const auto& t : n.rest) out.rest.push_back(t.exp());
             return out;
           })},
      {"lists of lists", three,
       Body(
           [](const World& w) {
             return std::tuple(std::vector<List>{{w.inputs[0], w.inputs[1]}, {}, {w.inputs[2]}});
           },
           [](World&, const std::vector<List>& lists) {
             std::vector<List> out;
             for (const auto& list : lists) {
               out.emplace_back();
               for (const auto& t : list) out.back().push_back(t * 2);
             }
             return out;
           })},
      {"an empty list as argument", leaves({{3}}),
       Body([](const World& w) { return std::tuple(w.inputs[0], List{}); },
            [](World&, const Tensor& x, const List& list) { return std::pair(x * 2, list); })},
      {"tensors written inside of a structure", plains({{3}, {3}}),
       Body(
           [](const World& w) {
             return std::tuple(Pair{w.inputs[0], w.inputs[1]});
           },
           [](World&, const Pair& p) {
             p.x.add_(1);
             p.y.copy_(p.x);
             return p;
           })},
      {"the same tensor in two places", leaves({{3}}),
       Body(
           [](const World& w) {
             return std::tuple(Pair{w.inputs[0], w.inputs[0]}, List{w.inputs[0]});
           },
           [](World&, const Pair& p, const List& l) {
             return List{p.x * p.y * l[0], l[0], p.x};
           })},
      {"shapes that differ from call to call",
       leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].exp().sum(0)}; },
       equal(),
       {},
       [](World& w, int64_t call) {
         w.inputs[0] = at::full({2 + call, 3}, 0.5).set_requires_grad(true);
       }},
      {"dtypes that differ from call to call",
       leaves({{3}}),
       [](const List& a) -> List {
         return {a[0] * 2, a[0].exp()};
       },
       equal(),
       {},
       [](World& w, int64_t call) {
         w.inputs[0] =
             at::full({3}, 0.5, call == 1 ? at::kDouble : at::kFloat).set_requires_grad(true);
       }},
      {"requires_grad that differs from call to call",
       leaves({{3}}),
       [](const List& a) -> List { return {a[0] * a[0]}; },
       equal(),
       {},
       [](World& w, int64_t call) { w.inputs[0] = at::ones({3}).set_requires_grad(call != 1); }},
      {"strides that differ from call to call",
       leaves({{3, 3}}),
       [](const List& a) -> List {
         return {a[0] * 2, a[0].sum(0)};
       },
       equal(),
       {},
       [](World& w, int64_t call) {
         const auto x = at::arange(9).to(at::kFloat).view({3, 3});
         w.inputs[0] = (call == 1 ? x.t() : x).detach().set_requires_grad(true);
       }},
      {"alias relations that differ from call to call",
       plains({{3}, {3}}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[1] * 2};
       },
       equal(),
       {},
       [](World& w, int64_t call) { w.inputs[1] = call == 1 ? w.inputs[0] : at::ones({3}); }},
  };
}

}  // namespace antegrad::testing
