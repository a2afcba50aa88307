// Small functions, compiled against eager.

#include <ATen/ATen.h>
#include <torch/nn/functional.h>

#include "support/parity.h"

namespace antegrad::testing {
namespace functions_test {

using List = std::vector<at::Tensor>;

struct Case {
  const char* name;
  Function fn;
  std::function<List()> inputs;
};

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"scalar arithmetic", [](const List& a) -> List { return {(a[0] * 2 + 1 - a[0] / 3).sum()}; },
       [] {
         return List{leaf({3, 4})};
       }},
      {"broadcasting", [](const List& a) -> List { return {(a[0] + a[1]) * a[1]}; },
       [] {
         return List{leaf({3, 4}), leaf({4})};
       }},
      {"in-place on an intermediate",
       [](const List& a) -> List {
         auto x = a[0] * a[1];
         x.view({-1}).mul_(2);
         x[0].add_(1);
         x.relu_();
         return {x.sum()};
       },
       [] {
         return List{at::randn({4, 4}), leaf({4, 4})};
       }},
      // With one column, the matrix product takes another path for strides of 1 and rounds
      // differently.
      {"in-place on a transposed row",
       [](const List& a) -> List {
         auto x = a[0].t();
         x.scatter_(0, at::zeros_like(x, at::kLong).narrow(0, 0, 1), 0.75);
         return {at::addmm(a[1], x.reshape({-1, x.size(-1)}), a[2].t())};
       },
       [] {
         return List{at::randn({1, 64}), leaf({1}), leaf({1, 1})};
       }},
      {"in-place on an argument without grad",
       [](const List& a) -> List {
         a[0].mul_(2);
         return {(a[0] * a[1]).sum()};
       },
       [] {
         return List{at::randn({4}), leaf({4})};
       }},
      {"an argument is returned",
       [](const List& a) -> List {
         return {a[0], (a[0] * 2).sum()};
       },
       [] { return List{leaf({4})}; }},
      {"one result twice",
       [](const List& a) -> List {
         auto y = a[0].exp();
         return {y, y};
       },
       [] { return List{leaf({4})}; }},
      {"integer result",
       [](const List& a) -> List {
         return {a[0].argmax(1), a[0].sum()};
       },
       [] {
         return List{leaf({3, 5})};
       }},
      {"undefined result",
       [](const List& a) -> List {
         return {at::Tensor(), a[0].sum()};
       },
       [] { return List{leaf({3})}; }},
      {"undefined argument",
       [](const List& a) -> List { return {a[1].defined() ? a[1].sum() : a[0].sum()}; },
       [] {
         return List{leaf({3}), at::Tensor()};
       }},
      {"nothing requires grad", [](const List& a) -> List { return {a[0].softmax(-1)}; },
       [] {
         return List{at::randn({3, 5})};
       }},
      {"an unused argument", [](const List& a) -> List { return {a[0].tanh().sum()}; },
       [] {
         return List{leaf({3}), leaf({2})};
       }},
      {"both gradients are the tangent", [](const List& a) -> List { return {a[0] + a[1]}; },
       [] {
         return List{leaf({3}), leaf({3})};
       }},
      {"a gradient is a view of the tangent",
       [](const List& a) -> List { return {a[0].view({6}) + a[1].view({6})}; },
       [] {
         return List{leaf({2, 3}), leaf({3, 2})};
       }},
      {"several results",
       [](const List& a) -> List {
         return {a[0].sin(), a[0].cos().sum()};
       },
       [] {
         return List{leaf({3, 2})};
       }},
      {"detach inside", [](const List& a) -> List { return {(a[0] * a[0].detach()).sum()}; },
       [] { return List{leaf({3})}; }},
      {"no_grad inside",
       [](const List& a) -> List {
         at::Tensor scale;
         {
           const at::NoGradGuard guard;
           scale = a[0].abs().max();
         }
         return {(a[0] / scale).sum()};
       },
       [] { return List{leaf({5})}; }},
      {"random operators in order",
       [](const List& a) -> List {
         auto u = at::rand({3, 4});
         auto n = at::randn_like(a[0]);
         auto d = at::dropout(a[0], 0.4, true);
         auto b = at::bernoulli(u);
         return {(u + n * d + b * a[0]).sum()};
       },
       [] {
         return List{leaf({3, 4})};
       }},
      {"an unused draw still advances the generator",
       [](const List& a) -> List {
         at::rand({7});
         return {(a[0] * at::rand({3})).sum()};
       },
       [] { return List{leaf({3})}; }},
      {"zero-size tensors",
       [](const List& a) -> List {
         return {at::cat({a[0], a[1]}, 0).sum() + a[0].sum()};
       },
       [] {
         return List{leaf({0, 3}), leaf({2, 3})};
       }},
      {"0-dim tensors", [](const List& a) -> List { return {a[0] * a[1].sum()}; },
       [] {
         return List{leaf({}), leaf({2})};
       }},
      {"split and cat",
       [](const List& a) -> List {
         auto parts = a[0].split(2, 1);
         return {at::cat({parts[1], parts[0].neg(), parts[2]}, 1)};
       },
       [] {
         return List{leaf({2, 6})};
       }},
      {"indexing with integers",
       [](const List& a) -> List {
         return {a[0].index({a[1]}) * 2, a[0].select(0, 1) * 3};
       },
       [] {
         return List{leaf({4, 3}), at::tensor({2, 0, 2})};
       }},
      {"float64", [](const List& a) -> List { return {a[0].matmul(a[1]).tanh().sum()}; },
       [] {
         return List{at::randn({3, 4}, at::kDouble).set_requires_grad(true),
                     at::randn({4, 2}, at::kDouble).set_requires_grad(true)};
       }},
      {"bfloat16", [](const List& a) -> List { return {a[0].matmul(a[1]).relu().sum()}; },
       [] {
         return List{at::randn({3, 4}).to(at::kBFloat16).set_requires_grad(true),
                     at::randn({4, 2}).to(at::kBFloat16).set_requires_grad(true)};
       }},
      {"strided inputs", [](const List& a) -> List { return {(a[0].t() * a[1]).sum(0)}; },
       [] {
         return List{leaf({3, 4}), at::randn({6, 4}).slice(1, 0, 3).slice(0, 0, 4)};
       }},
      {"channels last",
       [](const List& a) -> List { return {at::conv2d(a[0], a[1], {}, 1, 1).relu()}; },
       [] {
         return List{at::randn({2, 4, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast),
                     leaf({8, 4, 3, 3})};
       }},
      {"type promotion", [](const List& a) -> List { return {(a[0] * a[1] + a[2]).sum()}; },
       [] {
         return List{leaf({3}), at::arange(3), at::ones({3}, at::kDouble)};
       }},
  };
  return all;
}

class Functions : public ::testing::TestWithParam<size_t> {};

TEST_P(Functions, EqualEager) {
  const auto& c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  torch::manual_seed(1);
  expect_function_parity(c.fn, c.inputs());
}

INSTANTIATE_TEST_SUITE_P(All, Functions, ::testing::Range<size_t>(0, cases().size()));

TEST(Functions, AReturnedArgumentIsTheVeryTensor) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x; });
  const auto x = at::randn({3});
  EXPECT_TRUE(step(x).is_same(x));
}

TEST(Functions, GradientsShareMemoryWhereEagersDo) {
  const auto shares = [](auto fn) {
    const auto a = leaf({2, 3}), b = leaf({3, 2});
    fn(a, b).backward(at::ones({6}));
    return a.grad().is_alias_of(b.grad());
  };
  // Views of the tangent preserve its strides. A repeated computation does not, even if it is
  // merged.
  const auto views = [](const at::Tensor& a, const at::Tensor& b) {
    return a.view({6}) + b.view({6});
  };
  EXPECT_EQ(shares(views), shares(antegrad::compile(views)));
  const auto computed = [](const at::Tensor& a, const at::Tensor& b) {
    return (a * 2).view({6}) + (b * 2).view({6});
  };
  EXPECT_EQ(shares(computed), shares(antegrad::compile(computed)));
}

}  // namespace functions_test
}  // namespace antegrad::testing
