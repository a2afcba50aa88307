// Operators that a user registered with TORCH_LIBRARY, compiled against eager.

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>

#include "support/custom_ops.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace {

using List = std::vector<at::Tensor>;

struct Case {
  const char* name;
  Function fn;
  std::function<List()> inputs;
};

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

at::Tensor scale_(at::Tensor self, double by, const char* name = "scale_") {
  return call_op<at::Tensor&(at::Tensor&, double)>(name, self, by);
}
at::Tensor accumulate(const at::Tensor& x, at::Tensor total, const char* name = "accumulate") {
  return call_op<at::Tensor(const at::Tensor&, at::Tensor&)>(name, x, total);
}

const std::vector<Case>& writing_cases() {
  static const std::vector<Case> all = {
      {"an intermediate is written",
       [](const List& a) -> List {
         auto y = a[0] * 2;
         scale_(y, 3);
         return {y + a[0]};
       },
       [] {
         return List{at::randn({3, 4})};
       }},
      {"the returned alias is the argument",
       [](const List& a) -> List {
         auto y = a[0] * 2;
         auto z = scale_(y, 3);
         EXPECT_TRUE(z.is_same(y));
         z.add_(1);
         return {y.clone()};
       },
       [] { return List{at::randn({3})}; }},
      {"an argument is written",
       [](const List& a) -> List {
         scale_(a[0], 3);
         return {a[0] + 1};
       },
       [] { return List{at::randn({3})}; }},
      {"a view is written, its base sees it",
       [](const List& a) -> List {
         auto y = a[0] + 1;
         scale_(y.t().select(0, 1), 3);
         return {y};
       },
       [] {
         return List{at::randn({3, 4})};
       }},
      {"a base is written, its view sees it",
       [](const List& a) -> List {
         auto y = a[0] + 1;
         auto row = y.select(0, 1);
         scale_(y, 3);
         return {row * 2};
       },
       [] {
         return List{at::randn({3, 4})};
       }},
      {"a write beside an output of its own, without and with Meta kernel",
       [](const List& a) -> List {
         auto total = at::zeros_like(a[0]);
         auto x = accumulate(a[0], total);
         auto y = accumulate(a[0] + x, total, "accumulate_meta");
         return {x, y, total};
       },
       [] { return List{at::randn({3})}; }},
      {"a list is written",
       [](const List& a) -> List {
         auto x = a[0] + 1, y = a[0].sum(0);
         call_op<void(at::TensorList, double)>("fill_all", List{x, y}, 2.5);
         return {x, y};
       },
       [] {
         return List{at::randn({3, 2})};
       }},
      {"an optional argument is written, or absent, or undefined",
       [](const List& a) -> List {
         auto total = at::zeros_like(a[0]);
         using Signature = at::Tensor(const at::Tensor&, const std::optional<at::Tensor>&);
         auto x = call_op<Signature>("maybe_add_", a[0], total);
         auto y = call_op<Signature>("maybe_add_", x, std::nullopt);
         auto z = call_op<Signature>("maybe_add_", y, at::Tensor());
         return {x, y, z, total};
       },
       [] { return List{at::randn({3})}; }},
      {"two arguments are written and returned",
       [](const List& a) -> List {
         auto x = a[0] + 1, y = a[1] * 2;
         auto [p, q] =
             call_op<std::tuple<at::Tensor, at::Tensor>(at::Tensor, at::Tensor)>("swap_", x, y);
         EXPECT_TRUE(p.is_same(x) && q.is_same(y));
         return {x, y};
       },
       [] {
         return List{at::randn({3}), at::randn({3})};
       }},
      {"the written tensor is also read",
       [](const List& a) -> List {
         auto y = a[0] + 1;
         call_op<void(at::Tensor&, const at::Tensor&)>("axpy_", y, y);
         return {y};
       },
       [] { return List{at::randn({3})}; }},
      {"a non-contiguous tensor is written",
       [](const List& a) -> List {
         scale_(a[0], 3);
         return {a[0].sum()};
       },
       [] {
         return List{at::randn({3, 8}).t().slice(0, 0, 8, 2)};
       }},
      {"a write under autograd, by the operator's own kernel",
       [](const List& a) -> List {
         auto y = a[0] * a[0];
         auto z = scale_(y, 3, "scale_autograd_");
         return {(z * a[0]).sum()};
       },
       [] { return List{leaf({4})}; }},
      {"a write between saving and use elsewhere",
       [](const List& a) -> List {
         auto y = a[0].detach() + 1;
         auto z = a[0] * 2;
         scale_(y, 2, "scale_versioned_");
         return {(z * y).sum()};
       },
       [] { return List{leaf({4})}; }},
  };
  return all;
}

class Writing : public ::testing::TestWithParam<size_t> {};

TEST_P(Writing, EqualsEager) {
  const auto& c = writing_cases()[GetParam()];
  SCOPED_TRACE(c.name);
  torch::manual_seed(1);
  expect_function_parity(c.fn, c.inputs());
}

INSTANTIATE_TEST_SUITE_P(All, Writing, ::testing::Range<size_t>(0, writing_cases().size()));

TEST(CustomOps, VersionCountersMoveAsInEager) {
  for (const char* name : {"scale_", "scale_versioned_"}) {
    SCOPED_TRACE(name);
    std::vector<uint32_t> versions;
    const auto fn = [&](const at::Tensor& x) {
      auto y = x + 1;
      scale_(y, 2, name);
      scale_(y, 2, name);
      versions.push_back(y._version());
      return y;
    };
    const auto x = at::randn({3});
    fn(x);
    antegrad::compile(fn)(x);
    ASSERT_EQ(versions.size(), 2U);
    EXPECT_EQ(versions[0], versions[1]);
  }
}

TEST(CustomOps, AWriteOfASavedTensorIsEagersErrorAtBackward) {
  const auto fn = [](const at::Tensor& x) {
    auto y = x.exp();
    const auto z = y * y;
    {
      const at::NoGradGuard guard;
      scale_(y, 2, "scale_versioned_");
    }
    return z.sum();
  };
  const auto x = leaf({3});
  EXPECT_THROW(fn(x).backward(), c10::Error);
  auto step = antegrad::compile(fn);
  EXPECT_THROW(step(x).backward(), c10::Error);
}

// ---- batch normalisation hides its writes --------------------------------------------------------

TEST(HiddenWrites, BatchNormEqualsEagerInTrainingAndEvaluation) {
  for (const bool training : {true, false}) {
    expect_function_parity(
        [&](const List& a) -> List {
          auto y = at::batch_norm(a[0], a[1], a[2], a[3], a[4], training, 0.1, 1e-5, true);
          return {(y * y).sum(), a[3] + 1};
        },
        {leaf({4, 3, 2, 2}), leaf({3}), leaf({3}), at::zeros({3}), at::ones({3})});
  }
}

TEST(HiddenWrites, StatisticsMoveTheirVersionAsInEager) {
  for (const auto& sizes : {std::vector<int64_t>{4, 3}, {4, 3, 2, 2}}) {
    std::vector<uint32_t> versions;  // inside: of the tensors, then of their stand-ins
    const auto fn = [&](const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var) {
      const auto before = mean._version() + var._version();
      auto y = at::batch_norm(x, {}, {}, mean, var, true, 0.1, 1e-5, true);
      versions.push_back(mean._version() + var._version() - before);
      return y;
    };
    const auto mean = at::zeros({3}), var = at::ones({3});
    fn(leaf(sizes), mean, var);
    antegrad::compile(fn)(leaf(sizes), mean, var);
    ASSERT_EQ(versions.size(), 2U);
    EXPECT_EQ(versions[0], versions[1]) << at::IntArrayRef(sizes);
  }
}

TEST(HiddenWrites, ABatchNormWithoutStatisticsWritesNothing) {
  expect_function_parity(
      [](const List& a) -> List {
        return {at::batch_norm(a[0], {}, {}, {}, {}, true, 0.1, 1e-5, true).pow(3).sum()};
      },
      {leaf({4, 3})});
}

}  // namespace
}  // namespace antegrad::testing
