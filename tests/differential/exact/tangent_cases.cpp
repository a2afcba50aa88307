// Functions whose backward depends on which tangents are defined, on their strides, and on which
// gradients are wanted. The exams run all combinations for each case.

#include "differential/exact/cases.h"

namespace antegrad::testing {

Cases tangent_cases() {
  return {
      {"an undefined tangent is not zeros",
       [] { return World{{at::zeros({3}).set_requires_grad(true)}}; },
       [](const List& a) -> List {
         return {a[0].log(), a[0] * 2};
       }},
      {"results with separate inputs", leaves({{3}, {3}}),
       [](const List& a) -> List {
         return {a[0].exp(), a[1].tanh()};
       }},
      {"results with a common intermediate", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y * 2, y.sin(), y.sum()};
       }},
      {"one result is the intermediate of another", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].exp();
         return {y, (y * y).sum()};
       }},
      {"a result that nobody can differentiate", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].exp(), a[0].detach().exp(), a[0].sign()};
       }},
      {"a gradient of zero", leaves({{3}}),
       [](const List& a) -> List {
         return {a[0].sign(), a[0].round() * 2, a[0] * 0};
       }},
      {"an input that does not reach the result", leaves({{3}, {3}}),
       [](const List& a) -> List { return {a[0] * a[1].detach()}; }},
      {"an input that reaches one of two results", leaves({{3}, {3}}),
       [](const List& a) -> List {
         return {a[0] * a[1], a[0] + 1};
       }},
      {"the sum of a matrix", leaves({{3, 4}}), [](const List& a) -> List { return {a[0].sum()}; }},
      {"the mean over rows", leaves({{3, 4}}),
       [](const List& a) -> List {
         return {a[0].mean(0), a[0].mean(1, true)};
       }},
      {"an elementwise result of a matrix", leaves({{3, 4}}),
       [](const List& a) -> List { return {a[0].tanh()}; }},
      {"a matrix product", leaves({{3, 4}, {4, 2}}),
       [](const List& a) -> List { return {a[0].mm(a[1])}; }},
      {"a batched matrix product", leaves({{2, 3, 4}, {2, 4, 3}}),
       [](const List& a) -> List {
         return {a[0].bmm(a[1]), at::matmul(a[0], a[1][0])};
       }},
      {"a transposed result", leaves({{3, 4}, {4, 2}}),
       [](const List& a) -> List { return {a[0].mm(a[1]).t() * 2}; }},
      {"softmax and its logarithm", leaves({{3, 4}}),
       [](const List& a) -> List {
         return {a[0].softmax(-1), a[0].log_softmax(0)};
       }},
      {"layer normalisation", leaves({{3, 4}, {4}, {4}}),
       [](const List& a) -> List { return {at::layer_norm(a[0], {4}, a[1], a[2])}; }},
      {"a convolution", leaves({{2, 3, 5, 5}, {4, 3, 3, 3}, {4}}),
       [](const List& a) -> List { return {at::conv2d(a[0], a[1], a[2], 1, 1)}; }},
      {"pooling", leaves({{1, 2, 4, 4}}),
       [](const List& a) -> List {
         return {at::max_pool2d(a[0], 2), at::avg_pool2d(a[0], {2, 2}),
                 at::adaptive_avg_pool2d(a[0], {1, 1})};
       }},
      {"an embedding",
       [] {
         return World{{leaf({5, 3}), at::arange(8).remainder(5)}};
       },
       [](const List& a) -> List {
         return {at::embedding(a[0], a[1]), a[0].sum()};
       }},
      {"cross entropy",
       [] {
         return World{{leaf({4, 3}), at::arange(4).remainder(3)}};
       },
       [](const List& a) -> List { return {at::cross_entropy_loss(a[0], a[1])}; }},
      rounded("the backward of prod and cumprod takes another formula for stand-ins",
              {"a product of all elements", leaves({{4}}),
               [](const List& a) -> List {
                 return {a[0].prod(), a[0].cumprod(0)};
               }}),
      {"broadcasting on both sides", leaves({{3, 1}, {1, 4}, {}}),
       [](const List& a) -> List { return {a[0] * a[1] + a[2]}; }},
      {"a division and a power", leaves({{3}, {3}}),
       [](const List& a) -> List {
         return {a[0] / a[1].abs(), a[0].abs().pow(a[1])};
       }},
      {"where, with a branch that is not a number",
       [] { return World{{at::arange(-2, 3).to(at::kFloat).set_requires_grad(true)}}; },
       [](const List& a) -> List { return {at::where(a[0] > 0, a[0].sqrt(), a[0])}; }},
      {"max with ties",
       [] {
         return World{{at::ones({2, 3}).set_requires_grad(true)}};
       },
       [](const List& a) -> List {
         return {a[0].max(), std::get<0>(a[0].max(1)), a[0].amax(0)};
       }},
      {"a norm at zero", [] { return World{{at::zeros({3}).set_requires_grad(true)}}; },
       [](const List& a) -> List {
         return {a[0].norm(), a[0].abs().sum()};
       }},
      {"gather and index_select",
       [] {
         return World{{leaf({3, 4}), at::arange(6).remainder(3).view({2, 3})}};
       },
       [](const List& a) -> List {
         return {a[0].gather(1, a[1]), a[0].index_select(0, a[1][0])};
       }},
      {"stack, cat and repeat", leaves({{2, 2}, {2, 2}}),
       [](const List& a) -> List {
         return {at::stack({a[0], a[1]}), at::cat({a[0], a[0]}, 1), a[1].repeat({2, 1})};
       }},
      {"dropout in training", leaves({{6}}),
       [](const List& a) -> List {
         return {at::dropout(a[0], 0.5, true), a[0] * at::rand({6})};
       }},
      {"attention", leaves({{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}),
       [](const List& a) -> List { return {at::scaled_dot_product_attention(a[0], a[1], a[2])}; }},
      {"nothing differentiable", plains({{3}}),
       [](const List& a) -> List {
         return {a[0].exp(), a[0].argmax()};
       }},
      {"a mixed-precision sum",
       [] {
         return World{{leaf({3}), leaf({3}, at::kDouble)}};
       },
       [](const List& a) -> List {
         return {a[0] + a[1], a[0].to(at::kDouble) * a[1]};
       }},
      {"a saved result", leaves({{3}}),
       [](const List& a) -> List {
         const auto y = a[0].sigmoid();
         return {y, y.tanh()};
       }},
      refusing_gradient_of("input 0",
                           {"tangents of a written argument and of a result", nonleaves({{3}, {3}}),
                            [](const List& a) -> List {
                              a[0].mul_(a[1]);
                              return {a[0].exp(), a[1] * 2};
                            }}),
      {"triangular parts and a trace", leaves({{3, 3}}),
       [](const List& a) -> List {
         return {a[0].tril(), a[0].triu(1), a[0].trace()};
       }},
  };
}

}  // namespace antegrad::testing
