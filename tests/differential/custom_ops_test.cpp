// Operators that a user registered with TORCH_LIBRARY, compiled against eager.

#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>

#include <antegrad/inside.h>

#include "support/custom_ops.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace custom_ops_test {

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
      {"the same tensor twice in a written list",
       [](const List& a) -> List {
         auto x = a[0] + 1;
         call_op<void(at::TensorList, double)>("fill_all", List{x, x}, 2.5);
         return {x, x * 2};
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
      {"a write beside a list of new outputs",
       [](const List& a) -> List {
         auto x = a[0] + 1;
         using Signature = std::tuple<at::Tensor, List>(at::Tensor);
         auto [same, made] = call_op<Signature>("double_and_split_", x);
         EXPECT_TRUE(same.is_same(x));
         return {x, made.at(0), made.at(1)};
       },
       [] { return List{at::randn({3})}; }},
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

// ---- operators that only compute ----------------------------------------------------------------

at::Tensor cube(const char* name, const at::Tensor& x) {
  return call_op<at::Tensor(const at::Tensor&)>(name, x);
}

TEST(CustomOps, EveryWayToRegisterAComputation) {
  for (const char* name : {"cube_cpu", "cube_meta"}) {
    SCOPED_TRACE(name);
    expect_function_parity(
        [&](const List& a) -> List {
          return {cube(name, a[0]) + 1, cube(name, a[0].detach() * 2).sum() * a[1]};
        },
        {at::randn({3, 4}), leaf({2})});
  }
  for (const char* name : {"cube_autograd", "cube_composite"}) {
    SCOPED_TRACE(name);
    expect_function_parity([&](const List& a) -> List { return {cube(name, a[0] * 2).sum()}; },
                           {leaf({3, 4})});
  }
}

TEST(CustomOps, AClosureTensorReachesThem) {
  const auto weight = leaf({3});
  auto step = antegrad::compile(
      [&](const at::Tensor& x) { return (cube("cube_autograd", weight) * x).sum(); });
  const auto x = at::randn({3});
  step(x).backward();
  const auto found = weight.grad().clone();
  weight.mutable_grad() = at::Tensor();
  (cube("cube_autograd", weight) * x).sum().backward();
  EXPECT_TRUE(same_bits(found, weight.grad()));
}

TEST(CustomOps, ArgumentsOfEveryKind) {
  using Signature =
      at::Tensor(const at::Tensor&, int64_t, double, bool, std::string, at::ScalarType, at::Device,
                 at::IntArrayRef, at::ArrayRef<double>, c10::List<bool>, c10::List<std::string>,
                 at::TensorList, const c10::List<std::optional<at::Tensor>>&, const at::Scalar&,
                 std::optional<int64_t>, std::optional<double>, const std::optional<at::Tensor>&,
                 std::optional<at::Layout>, std::optional<at::MemoryFormat>);
  for (const bool present : {true, false}) {
    expect_function_parity(
        [&](const List& a) -> List {
          c10::List<std::optional<at::Tensor>> optionals;
          optionals.push_back(std::nullopt);
          optionals.push_back(a[1]);
          return {call_op<Signature>(
              "everything", a[0], 3, 0.5, true, "word", at::kDouble, at::kCPU,
              std::vector<int64_t>{4, 5}, std::vector<double>{0.25, 7},
              c10::List<bool>({true, false}), c10::List<std::string>({"a", "bcd"}),
              List{a[0], a[1]}, optionals, at::Scalar(1.5),
              present ? std::optional<int64_t>(11) : std::nullopt,
              present ? std::optional<double>(2.5) : std::nullopt,
              present ? std::optional(a[1]) : std::nullopt,
              present ? std::optional(at::kStrided) : std::nullopt,
              present ? std::optional(at::MemoryFormat::Contiguous) : std::nullopt)};
        },
        {at::randn({3}), at::randn({2, 2})});
  }
}

TEST(CustomOps, SeveralOutputsAListAmongThem) {
  expect_function_parity(
      [](const List& a) -> List {
        auto [x, list, y] =
            call_op<std::tuple<at::Tensor, List, at::Tensor>(const at::Tensor&)>("several", a[0]);
        EXPECT_EQ(list.size(), 2U);
        return {x * list[0], list[1] + y};
      },
      {at::randn({3})});
}

TEST(CustomOps, AnOptionalOutputPresentAndAbsent) {
  using Signature = std::tuple<std::optional<at::Tensor>, at::Tensor>(const at::Tensor&, bool);
  for (const bool give : {true, false}) {
    expect_function_parity(
        [&](const List& a) -> List {
          auto [x, y] = call_op<Signature>("perhaps", a[0], give);
          EXPECT_EQ(x.has_value(), give);
          return {x ? *x * y : y};
        },
        {at::randn({3})});
  }
}

TEST(CustomOps, DrawsKeepTheirPlaceAmongOthers) {
  using Signature = at::Tensor(const at::Tensor&, const std::optional<at::Generator>&);
  expect_function_parity(
      [](const List& a) -> List {
        auto x = call_op<Signature>("noise", a[0], std::nullopt);
        at::rand({5});
        auto unused = call_op<Signature>("noise", x, std::nullopt);
        return {x + call_op<Signature>("noise", x, std::nullopt) + at::rand({3})};
      },
      {at::randn({3})});
}

TEST(CustomOps, OperatorsSeeTheStridesThatEagerShowsThem) {
  const auto fn = [](const at::Tensor& x) {
    at::Tensor sum = x.t().clone();
    for (const char* name : {"note_fixed_order", "note_exact", "note_flexible"}) {
      auto y = cube(name, x.t()) + cube(name, x.exp().t());
      sum = sum + y + cube(name, y.unsqueeze(0).expand({2, -1, -1})).sum(0);
    }
    return sum;
  };
  const auto x = at::randn({8, 8}).slice(0, 0, 2).slice(1, 2, 4);
  Journal::instance().take();
  fn(x);
  const auto expected = Journal::instance().take();
  EXPECT_EQ(expected.size(), 9U);
  auto step = antegrad::compile(fn);
  for (int i = 0; i < 2; ++i) {
    step(x);
    EXPECT_EQ(Journal::instance().take(), expected);
  }
}

// ---- effects ------------------------------------------------------------------------------------

void log(const at::Tensor& x, const char* tag, const char* name = "log") {
  call_op<void(const at::Tensor&, std::string)>(name, x, tag);
}
at::Tensor tap(const at::Tensor& x, const char* tag, const char* name = "tap") {
  return call_op<at::Tensor(const at::Tensor&, std::string)>(name, x, tag);
}

// Runs `fn` and its backward eagerly and compiled twice; expects the same journal from each.
void expect_same_journal(const std::function<at::Tensor(const at::Tensor&)>& fn,
                         const at::Tensor& x, size_t lines) {
  const auto run = [&](auto& callable) {
    Journal::instance().take();
    auto y = callable(x);
    if (y.requires_grad()) y.sum().backward();
    x.mutable_grad() = at::Tensor();
    return Journal::instance().take();
  };
  const auto expected = run(fn);
  EXPECT_EQ(expected.size(), lines);
  auto step = antegrad::compile(fn, Options().with_verify_graphs(true));
  EXPECT_EQ(run(step), expected);
  EXPECT_EQ(run(step), expected);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Effects, KeepTheirOrderAndNumber) {
  expect_same_journal(
      [](const at::Tensor& x) {
        log(x, "first");
        auto y = x * 2;
        log(y, "second", "log_composite");
        log(x, "first");
        log(x, "first");
        return y;
      },
      at::randn({3}), 4);
}

TEST(Effects, AreNotDroppedWithTheirUnusedOutputs) {
  declare_effects("agtest::tap");
  expect_same_journal(
      [](const at::Tensor& x) {
        tap(x, "unused");
        tap(x, "unused");
        return tap(x + 1, "used") * 2;
      },
      at::randn({3}), 3);
}

TEST(Effects, OfTheBackwardFollowThoseOfTheForward) {
  declare_effects("agtest::tap");
  declare_effects("agtest::tap_autograd");
  expect_same_journal(
      [](const at::Tensor& x) {
        auto y = tap(x * 2, "a", "tap_autograd");
        log(y.detach(), "between");
        auto z = tap(y.exp(), "b", "tap_autograd");
        return tap(z, "c", "tap_autograd").sum();
      },
      leaf({3}), 7);
}

TEST(Effects, DoNotHappenDuringWarmup) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    log(x, "once");
    return x + 1;
  });
  Journal::instance().take();
  step.warmup(at::randn({3}));
  EXPECT_TRUE(Journal::instance().take().empty());
}

// ---- batch normalisation hides its writes -------------------------------------------------------

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

TEST(CustomOps, TheReportCountsWhatDescribedTheirOutputs) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    const auto y = call_op<at::Tensor(const at::Tensor&)>("cube_meta", x);
    return call_op<at::Tensor(const at::Tensor&)>("cube_cpu", y * 2);
  });
  step(at::randn({3}));
  const auto program = step.report().programs.at(0);
  EXPECT_EQ(program.meta_kernels, 1);
  EXPECT_EQ(program.real_kernels, 1);
  EXPECT_EQ(program.shape_functions, 1);
}

}  // namespace custom_ops_test
}  // namespace antegrad::testing
