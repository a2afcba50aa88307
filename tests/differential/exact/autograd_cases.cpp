// What a callable may do with autograd itself: detach, hooks, modes, gradients inside, second
// derivatives.

#include <torch/csrc/autograd/autograd.h>

#include "differential/exact/cases.h"

namespace antegrad::testing {

Cases autograd_cases() {
  return {
      {"detach cuts the history", leaves({{3}}),
       [](const List& a) -> List { return {a[0] * a[0].detach()}; }},
      {"a straight-through estimator", leaves({{3}}),
       [](const List& a) -> List { return {a[0] + (a[0].round() - a[0]).detach()}; }},
      {"no_grad inside", leaves({{3}}),
       [](const List& a) -> List {
         at::Tensor scale;
         {
           const at::NoGradGuard guard;
           scale = a[0].abs().max();
         }
         return {a[0] / scale};
       }},
      {"enable_grad inside no_grad", leaves({{3}}),
       [](const List& a) -> List {
         const at::NoGradGuard guard;
         const auto y = a[0] * 2;
         const at::AutoGradMode grad(true);
         return {y, a[0] * 3};
       }},
      {"detach_ of a local", leaves({{3}}),
       [](const List& a) -> List {
         auto y = a[0].exp();
         y.detach_();
         return {y * a[0]};
       }},
      {"requires_grad_(true) of a local", leaves({{3}}),
       [](const List& a) -> List {
         const auto fresh = at::full({3}, 2.0).requires_grad_(true);
         return {(a[0] * fresh).sum()};
       }},
      {"requires_grad_ of an argument that has it", leaves({{3}}),
       [](const List& a) -> List {
         a[0].requires_grad_(true);
         return {a[0] * 2};
       }},
      {"requires_grad_(false) of an argument", leaves({{3}}),
       [](const List& a) -> List {
         a[0].requires_grad_(false);
         return {a[0] * 2};
       },
       refused<CaptureError>("requires_grad")},
      {"requires_grad_(true) of a plain argument", plains({{3}}),
       [](const List& a) -> List {
         a[0].requires_grad_(true);
         return {a[0] * 2};
       },
       refused<CaptureError>("requires_grad")},
      {"set_requires_grad of an argument", plains({{3}}),
       [](const List& a) -> List {
         a[0].set_requires_grad(true);
         return {a[0] * 2};
       },
       refused<CaptureError>("requires_grad")},
      {"detach_ of a non-leaf argument", nonleaves({{3}}),
       [](const List& a) -> List {
         a[0].detach_();
         return {a[0] * 2};
       },
       refused<CaptureError>("")},
      {"backward() inside", leaves({{3}}),
       [](const List& a) -> List {
         (a[0] * a[0]).sum().backward();
         return {a[0].detach() * 1};
       },
       refused<CaptureError>("backward")},
      {"a hook on an intermediate", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         y.register_hook([](const at::Tensor& g) { return g * 2; });
         return {y.sum()};
       }},
      {"a hook that clips", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 10;
         y.register_hook([](const at::Tensor& g) { return g.clamp(-0.1, 0.1); });
         return {(y * y).sum()};
       }},
      {"a hook that only looks", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0] * 10;
         y.register_hook([](const at::Tensor&) {});
         return {y.exp()};
       }},
      {"a hook on an argument", leaves({{3}}),
       [](const List& a) -> List {
         a[0].register_hook([](const at::Tensor& g) { return g * 2; });
         return {a[0].exp()};
       },
       refused<CaptureError>("hook")},
      {"retain_grad of an intermediate", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         y.retain_grad();
         return {y * 2};
       }},
      {"retain_grad of a result", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         y.retain_grad();
         return {y, y * 2};
       },
       refused<CaptureError>("retain_grad")},
      {"retain_grad of a leaf argument", leaves({{3}}),
       [](const List& a) -> List {
         a[0].retain_grad();
         return {a[0] * 2};
       }},
      {"set_data of an argument", leaves({{3}}),
       [](const List& a) -> List {
         a[0].set_data(at::zeros({3}));
         return {a[0] * 2};
       },
       refused<CaptureError>("set_data")},
      {"autograd::grad of arguments inside", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp().sum();
         return {torch::autograd::grad({y}, {a[0]})[0], a[0] * 2};
       }},
      {"a gradient penalty by autograd::grad", leaves({{3}, {3}}),
       [](const List& a) -> List {
         const auto y = (a[0] * a[1]).tanh().sum();
         const auto g = torch::autograd::grad({y}, {a[0]}, {}, c10::nullopt, true)[0];
         return {y + g.pow(2).sum()};
       }},
      {"a gradient with respect to an intermediate inside", leaves({{3}}),
       [](const List& a) -> List {
         const auto h = a[0].exp();
         const auto y = (h * h).sum();
         return {torch::autograd::grad({y}, {h}, {}, /*retain_graph=*/true)[0], y};
       }},
      {"a second-order derivative inside", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].pow(4).sum();
         const auto g = torch::autograd::grad({y}, {a[0]}, {}, c10::nullopt, true)[0];
         const auto h = torch::autograd::grad({g.sum()}, {a[0]}, {}, c10::nullopt, true)[0];
         return {h};
       }},
      {"a loop that shares its weight", leaves({{3, 3}, {2, 3}}),
       [](const List& a) -> List {
         auto h = a[1];
         for (int i = 0; i < 4; ++i) h = h.mm(a[0]).tanh();
         return {h};
       }},
      {"an early exit on a host value", leaves({{3}}),
       [](const List& a) -> List {
         if (a[0].size(0) == 3) return {a[0].exp()};
         return {a[0].sin()};
       }},
      {"requires_grad is asked", plain_and_leaf({3}, {3}),
       [](const List& a) -> List {
         return {a[0].requires_grad() ? a[0] : a[1] * 2,
                 (a[0] * a[1]).requires_grad() ? a[1] * 3 : a[0]};
       }},
      {"grad mode is asked", leaves({{3}}),
       [](const List& a) -> List { return {at::GradMode::is_enabled() ? a[0] * 2 : a[0] * 3}; }},
  };
}

}  // namespace antegrad::testing
