// Results that are, or share memory with, arguments, closure tensors, intermediates or each other.

#include "differential/exact/cases.h"

namespace antegrad::testing {
namespace {

using Fn = List (*)(const List&);

// Views of an argument, each as a result by itself. The argument is a leaf, a plain tensor and a
// non-leaf in turn.
const std::vector<std::pair<const char*, Fn>>& view_functions() {
  static const std::vector<std::pair<const char*, Fn>> functions = {
      {"view",
       [](const List& a) -> List {
         return {a[0].view({3, 2})};
       }},
      {"select", [](const List& a) -> List { return {a[0].select(0, 1)}; }},
      {"slice", [](const List& a) -> List { return {a[0].slice(1, 1, 3)}; }},
      {"slice with a step", [](const List& a) -> List { return {a[0].slice(1, 0, 3, 2)}; }},
      {"transpose", [](const List& a) -> List { return {a[0].t()}; }},
      {"permute and unsqueeze",
       [](const List& a) -> List {
         return {a[0].permute({1, 0}).unsqueeze(1)};
       }},
      {"expand",
       [](const List& a) -> List {
         return {a[0].unsqueeze(0).expand({4, 2, 3})};
       }},
      {"diagonal", [](const List& a) -> List { return {a[0].diagonal()}; }},
      {"narrow of flatten", [](const List& a) -> List { return {a[0].flatten().narrow(0, 2, 3)}; }},
      {"a detached one of several, and what it was detached from",
       [](const List& a) -> List {
         const auto one = a[0].unbind(0).at(1).detach();
         return {one.detach(), one, a[0].unbind(0).at(1)};
       }},
      {"unfold", [](const List& a) -> List { return {a[0].unfold(1, 2, 1)}; }},
      {"as_strided",
       [](const List& a) -> List {
         return {a[0].as_strided({2, 2}, {2, 1}, 1)};
       }},
      {"a no-op view",
       [](const List& a) -> List {
         return {a[0].view({2, 3})};
       }},
      {"alias", [](const List& a) -> List { return {at::alias(a[0])}; }},
  };
  return functions;
}

Cases views_of_arguments() {
  Cases cases;
  for (const auto& [name, fn] : view_functions()) {
    const std::string view = name;
    cases.push_back({"a view of a leaf: " + view, leaves({{2, 3}}), fn});
    cases.push_back({"a view of a plain tensor: " + view, plains({{2, 3}}), fn});
  }
  for (const size_t i : {0U, 1U, 4U, 6U}) {
    const auto& [name, fn] = view_functions()[i];
    cases.push_back({std::string("a view of a non-leaf: ") + name, nonleaves({{2, 3}}), Fn(fn)});
  }
  return cases;
}

Cases arguments() {
  return {
      {"the argument itself", leaves({{3}}), [](const List& a) -> List { return {a[0]}; }},
      {"the argument and its square", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0], a[0] * a[0]};
       }},
      {"a non-leaf argument itself", nonleaves({{3}}),
       [](const List& a) -> List {
         return {a[0], a[0] * 2};
       }},
      {"the argument twice", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0], a[0]};
       }},
      {"arguments in another order", leaves({{3}, {2}}),
       [](const List& a) -> List {
         return {a[1], a[0]};
       }},
      {"a detached argument", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].detach(), a[0] * 2};
       }},
      {"a detached view of an argument", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {a[0].select(0, 1).detach(), a[0].sum()};
       }},
      {"a detached plain argument", plains({{3}}),
       [](const List& a) -> List { return {a[0].detach()}; }},
      {"data() of an argument", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].data(), a[0] * 2};
       }},
      {"variable_data() of an argument", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].variable_data(), a[0] * 2};
       }},
      {"a contiguous argument made contiguous", leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].contiguous()}; }},
      {"a transposed argument made contiguous", leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].t().contiguous()}; }},
      {"reshape that is a view", leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].reshape({6})}; }},
      {"reshape that copies", leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].t().reshape({6})}; }},
      {"to() that does nothing", leaves({{2}}),
       [](const List& a) -> List { return {a[0].to(at::kFloat)}; }},
      {"to() that converts", leaves({{2}}),
       [](const List& a) -> List { return {a[0].to(at::kDouble)}; }},
      {"a scalar expanded to itself, with a gradient of -0", leaves({{}}),
       [](const List& a) -> List { return {a[0].expand_as(a[0]) * -0.0}; }},
      {"expand_as and flatten", leaves({{3}, {2, 3}}),
       [](const List& a) -> List {
         return {a[0].expand_as(a[1]), a[1].flatten()};
       }},
      {"a view of a view of an argument", leaves({{2, 3, 4}}),
       [](const List& a) -> List { return {a[0].select(0, 1).t().slice(0, 1, 3)}; }},
      {"two views of one argument", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {a[0].view({6}), a[0].select(1, 0)};
       }},
      {"an argument and its view", leaves({{2, 3}}),
       [](const List& a) -> List {
         return {a[0], a[0].t()};
       }},
      {"split of an argument", leaves({{6, 2}}),
       [](const List& a) -> List { return a[0].split(2); }},
      {"chunk of a non-leaf argument", nonleaves({{4, 2}}),
       [](const List& a) -> List { return a[0].chunk(2); }},
      {"unbind of a plain argument", plains({{3, 2}}),
       [](const List& a) -> List { return a[0].unbind(); }},
      {"a view under no_grad", leaves({{2, 3}}),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         return {a[0].view({6})};
       }},
      {"a view of a non-leaf under no_grad", nonleaves({{2, 3}}),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         return {a[0].select(0, 1)};
       }},
      {"a view and a detached one of a written argument", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].add_(1);
         const auto part = a[0].narrow(1, 0, 1);
         return {part.detach(), part.transpose(1, 0)};
       }},
      {"a complex view of memory that is written behind it", plains({{3, 2}}),
       [](const List& a) -> List {
         const auto pairs = a[0].unsqueeze(0);
         const auto complex = at::view_as_complex(pairs);
         pairs.data().mul_(0.5);
         return {complex};
       }},
      {"a view of a view made under no_grad", leaves({{2, 3}}),
       [](const List& a) -> List {
         at::Tensor flat;
         {
           const at::NoGradGuard guard;
           flat = a[0].view({6});
         }
         return {flat.slice(0, 1, 4)};
       },
       refused<CaptureError>("one that is a view of a view made with grad mode off")},
      {"a view of an integer argument", [] { return World{{at::arange(6)}}; },
       [](const List& a) -> List {
         return {a[0].view({2, 3}), a[0].slice(0, 1, 3)};
       }},
      {"view as another dtype", [] { return World{{buffer({4})}}; },
       [](const List& a) -> List { return {a[0].view(at::kInt)}; }},
      {"view_as_real of an argument", [] { return World{{leaf({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List { return {at::view_as_real(a[0])}; }},
      {"the real part of an argument", [] { return World{{leaf({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List { return {at::real(a[0])}; }},
      {"view_as_complex of an argument", leaves({{3, 2}}),
       [](const List& a) -> List { return {at::view_as_complex(a[0])}; }},
      {"a conjugate as result", [] { return World{{leaf({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List { return {a[0].conj()}; }},
      {"an empty view of an argument", leaves({{3, 2}}),
       [](const List& a) -> List { return {a[0].slice(0, 1, 1)}; }},
      {"a view of an argument that was written", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].add_(1);
         return {a[0].view({6})};
       }},
      {"a view taken before the argument was written", plains({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].view({6});
         a[0].add_(1);
         return {y};
       }},
      {"a view of an argument that got grad", plain_and_leaf({2, 3}, {3}),
       [](const List& a) -> List {
         a[0].mul_(a[1]);
         return {a[0].select(0, 1)};
       }},
      tolerating("called under no_grad: result 0: grad_fn asked",
                 "eager's view is older than the write, a region's is made after it and has no "
                 "doubtful history",
                 {"a written view of a non-leaf is returned", nonleaves({{2, 3}}),
                  [](const List& a) -> List { return {a[0].select(0, 1).mul_(2)}; }}),
      {"the argument after t_", plains({{2, 3}}),
       [](const List& a) -> List {
         a[0].t_();
         return {a[0].select(0, 1), a[0]};
       }},
  };
}

Cases intermediates() {
  return {
      {"a view of an intermediate", leaves({{2, 3}}),
       [](const List& a) -> List { return {a[0].exp().t()}; }},
      {"a row of an intermediate", leaves({{4, 3}}),
       [](const List& a) -> List { return {a[0].exp().select(0, 2)}; }},
      {"a view of an intermediate that needs no grad", plains({{4, 3}}),
       [](const List& a) -> List { return {a[0].exp().slice(0, 1, 3)}; }},
      {"an intermediate and its view", leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y, y.view({6})};
       }},
      {"a view before its base", leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y.select(0, 1), y};
       }},
      {"two views of one intermediate", leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y.t(), y.select(1, 2)};
       }},
      {"two views of one plain intermediate", plains({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y.t(), y.select(1, 2)};
       }},
      {"a view of a view of an intermediate", leaves({{2, 3, 4}}),
       [](const List& a) -> List {
         const auto y = a[0].exp().select(0, 1);
         return {y, y.t().slice(0, 0, 2)};
       }},
      {"split of an intermediate", leaves({{6, 2}}),
       [](const List& a) -> List { return (a[0] * 2).split(2); }},
      {"one part of a split", leaves({{6, 2}}),
       [](const List& a) -> List { return {(a[0] * 2).split(2)[1]}; }},
      {"unbind of an intermediate", leaves({{3, 2}}),
       [](const List& a) -> List { return a[0].exp().unbind(1); }},
      {"chunks of a gate", leaves({{2, 8}}),
       [](const List& a) -> List {
         const auto parts = a[0].chunk(4, 1);
         return {parts[0].sigmoid() * parts[1], parts[2].tanh(), parts[3]};
       }},
      {"a result twice", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y, y, y};
       }},
      {"equal results that are two tensors", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].exp(), a[0].exp()};
       }},
      {"two views that are alike", leaves({{2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y.t(), y.t()};
       }},
      {"an intermediate and its detached alias", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y, y.detach()};
       }},
      {"only the detached alias", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].exp().detach(), a[0].sum()};
       }},
      {"an intermediate and its data()", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 2;
         return {y, y.data(), y.variable_data()};
       }},
      {"detach_ of an intermediate", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         const auto z = y * 3;
         y.detach_();
         return {y, z};
       }},
      {"a hidden state and its detached copy", leaves({{3}, {3}}),
       [](const List& a) -> List {
         const auto h = (a[0] + a[1]).tanh();
         return {h.sum(), h.detach().clone()};
       }},
      {"an expanded intermediate", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].exp().expand({4, 3})};
       }},
      {"an expanded sum", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].sum().expand({2, 2})};
       }},
      {"the base is written after a view was taken", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         const auto v = y.select(0, 1);
         y.mul_(3);
         return {v};
       }},
      {"the base is written and both are returned", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         const auto v = y.view({6});
         y.add_(a[0]);
         return {y, v};
       }},
      {"the view is written and both are returned", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto y = a[0] * 2;
         const auto v = y.select(0, 0);
         v.zero_();
         return {v, y};
       }},
      rounded("the tangent of an intermediate that results are views of is added before what comes "
              "from inside",
              {"views of a saved intermediate", leaves({{2, 3}}),
               [](const List& a) -> List {
                 const auto y = a[0].exp();
                 return {y.view({6}), (y * y).sum()};
               }}),
      {"a constant made inside", leaves({{3}}),
       [](const List& a) -> List {
         return {at::ones({3}), at::arange(3), a[0] * 2};
       }},
      {"a view of a constant made inside", plains({{1}}),
       [](const List&) -> List {
         const auto c = at::arange(6).to(at::kFloat);
         return {c.view({2, 3}), c};
       }},
      {"a fresh tensor that requires grad", leaves({{3}}),
       [](const List& a) -> List {
         const auto fresh = at::ones({3}).requires_grad_();
         return {fresh, a[0] * fresh};
       },
       refused<CaptureError>("a leaf made inside that is returned")},
      {"requires_grad_ of a detached intermediate", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0].exp().detach();
         y.requires_grad_();
         return {y, (y * a[0]).sum()};
       },
       refused<CaptureError>("a leaf made inside that is returned")},
      {"requires_grad_(false) of a fresh tensor", leaves({{3}}),
       [](const List& a) -> List {
         auto fresh = at::ones({3}).requires_grad_();
         fresh.requires_grad_(false);
         return {fresh, a[0] * fresh};
       }},
      {"an undefined result", leaves({{3}}),
       [](const List& a) -> List {
         return {at::Tensor(), a[0].exp(), at::Tensor()};
       }},
      {"an empty list", leaves({{3}}), [](const List&) -> List { return {}; }},
      {"integer and boolean results", leaves({{3, 4}}),
       [](const List& a) -> List {
         return {a[0].argmax(1), a[0] > 0, a[0].sum()};
       }},
      {"an integer view", leaves({{3, 4}}),
       [](const List& a) -> List {
         const auto order = a[0].argsort(int64_t{1}, false);
         return {order.select(0, 1), order};
       }},
      {"values and indices of max", leaves({{3, 4}}),
       [](const List& a) -> List {
         const auto [values, indices] = a[0].max(1);
         return {values, indices, values.view({3, 1})};
       }},
      {"unused outputs of topk and sort", leaves({{3, 4}}),
       [](const List& a) -> List {
         return {std::get<0>(a[0].topk(2)), std::get<1>(a[0].sort(1))};
       }},
      {"results that need no grad among those that do", leaves({{3}}),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         const auto y = a[0].exp();
         return {y, y.select(0, 1)};
       }},
      {"a 0-dim view", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].exp()[1], a[0][2]};
       }},
      {"views of two arguments and of an intermediate", leaves({{2, 3}, {2, 3}}),
       [](const List& a) -> List {
         const auto y = a[0] + a[1];
         return {a[0].t(), a[1].view({6}), y.t(), y.view({6}), y};
       }},
      {"a squeezed intermediate", leaves({{1, 3, 1}}),
       [](const List& a) -> List {
         return {(a[0] * 2).squeeze(), (a[0] * 3).squeeze(0)};
       }},
      {"a transposed product", leaves({{2, 3}, {3, 4}}),
       [](const List& a) -> List {
         return {a[0].mm(a[1]).t(), a[0].t().contiguous()};
       }},
      {"movedim and swapaxes", leaves({{2, 3, 4}}),
       [](const List& a) -> List {
         return {a[0].exp().movedim(0, 2), a[0].swapaxes(0, 1)};
       }},
      {"view_as_real of an intermediate", [] { return World{{leaf({3}, at::kComplexFloat)}}; },
       [](const List& a) -> List {
         const auto y = a[0] * a[0];
         return {at::view_as_real(y), y};
       }},
      {"a slice of a written buffer", leaves({{2, 3}}),
       [](const List& a) -> List {
         auto cache = at::zeros({4, 3});
         cache.slice(0, 1, 3).copy_(a[0]);
         return {cache.slice(0, 0, 2), cache.slice(0, 2, 4)};
       }},
  };
}

}  // namespace

Cases alias_cases() {
  Cases all;
  for (auto part : {views_of_arguments(), arguments(), intermediates()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace antegrad::testing
