// Questions about data that a callable asks: branches, integers, the sizes of results.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/library.h>

#include <atomic>

#include "support/custom_ops.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace questions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void note(const at::Tensor& x, const std::string& tag) {
  call_op<void(const at::Tensor&, std::string)>("log", x, tag);
}

at::Tensor leaf_of(const at::Tensor& data) { return data.clone().set_requires_grad(true); }

// Calls both with the data and compares results and gradients of their sums.
template <class Compiled, class Function>
void expect_as_eager(Compiled& step, const Function& fn, const at::Tensor& data) {
  const auto eager = leaf_of(data), compiled = leaf_of(data);
  at::manual_seed(7);
  const at::Tensor expected = fn(eager);
  const auto drawn = at::rand({2});
  at::manual_seed(7);
  const at::Tensor found = step(compiled);
  EXPECT_TRUE(same_bits(expected, found));
  EXPECT_EQ(expected.strides(), found.strides());
  EXPECT_TRUE(same_bits(drawn, at::rand({2})));  // the generator is as after the eager call
  ASSERT_EQ(expected.requires_grad(), found.requires_grad());
  if (!expected.requires_grad()) return;
  expected.sum().backward();
  found.sum().backward();
  EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
}

// The same for data with different answers, with one program per answer.
template <class Function>
Report expect_programs(const Function& fn, size_t programs, const std::vector<at::Tensor>& data) {
  auto step = antegrad::compile(fn);
  for (int round = 0; round < 3; ++round) {
    for (const auto& d : data) expect_as_eager(step, fn, d);
  }
  auto report = step.report();
  EXPECT_EQ(report.programs.size(), programs);
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_GT(report.audits, 0);
  return report;
}

at::Tensor numbers(std::vector<float> values) { return at::tensor(values); }

const auto kOne = numbers({1, -2, -3, -4}), kTwo = numbers({1, 2, -3, -4}),
           kAll = numbers({1, 2, 3, 4}), kNone = numbers({-1, -2, -3, -4});

at::Tensor asks(const at::Tensor& a, const at::Tensor& b) {
  return a.equal(b) ? a.sin() * 2 : a + b.cos();
}

TEST(Questions, EachAnswerHasAProgram) {
  const auto a = at::randn({2, 3}), b = at::randn({2, 3});
  auto step = antegrad::compile(&asks);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(step(a, b), asks(a, b)));
    EXPECT_TRUE(same_bits(step(a, a.clone()), asks(a, a.clone())));
  }
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_EQ(report.eager_calls, 0);
}

// Known without looking at the data.
TEST(Questions, TensorsOfOtherSizesOrWithoutElementsOrTheSameAskNothing) {
  const auto a = at::randn({2, 3}), b = at::randn({3, 2}), none = at::empty({0, 3});
  auto step = antegrad::compile(&asks);
  EXPECT_THROW(step(a, b), c10::Error);  // of the sum, as in eager
  EXPECT_TRUE(same_bits(step(none, none.clone()), asks(none, none)));
  EXPECT_TRUE(same_bits(step(a, a), asks(a, a)));
  EXPECT_EQ(step.report().programs.size(), 2U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Questions, SeveralInARowWithGradients) {
  const auto fn = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    auto y = a * b;
    if (a.equal(b)) y = y.exp();
    if (b.equal(c)) y = y + c * 3;
    return y.sum();
  };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({4}), z = at::randn({4});
  for (int way = 0; way < 4; ++way) {
    const auto b = (way % 2 == 0 ? x : z).clone();
    const auto c = (way / 2 == 0 ? b : x + 1).clone();
    auto eager = x.clone().set_requires_grad(true), compiled = x.clone().set_requires_grad(true);
    const auto expected = fn(eager, b, c), found = step(compiled, b, c);
    EXPECT_TRUE(same_bits(expected, found));
    expected.backward();
    found.backward();
    EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
  }
  EXPECT_EQ(step.report().programs.size(), 4U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Questions, ABranch) {
  expect_programs([](const at::Tensor& x) { return x.sum().gt(0).item<bool>() ? x.sin() : -x; }, 2,
                  {kAll, kNone});
  // Of a number that is no bool.
  expect_programs([](const at::Tensor& x) { return x[1].is_nonzero() ? x.sin() : -x; }, 2,
                  {kAll, numbers({1, 0, 1, 1})});
}

TEST(Questions, AnInteger) {
  const auto report = expect_programs(
      [](const at::Tensor& x) { return x.narrow(0, 0, x.gt(0).sum().item<int64_t>()).exp(); }, 3,
      {kOne, kTwo, kAll});
  ASSERT_EQ(report.recompiles.size(), 2U);
  EXPECT_THAT(report.recompiles[0], HasSubstr("antegrad::assume"));
  EXPECT_THAT(report.recompiles[0], HasSubstr("was 1, is 2"));
}

TEST(Questions, SizesOfWhatAnOperatorReturns) {
  const auto all = {kOne, kTwo, kAll, kNone};
  expect_programs([](const at::Tensor& x) { return x.masked_select(x > 0).sin(); }, 4, all);
  expect_programs([](const at::Tensor& x) { return x.index({x > 0}).sin(); }, 4, all);
  expect_programs([](const at::Tensor& x) { return at::nonzero(x > 0); }, 4, all);
  expect_programs(
      [](const at::Tensor& x) { return std::get<0>(at::_unique2(x.gt(0).to(at::kInt))); }, 2, all);
  const auto report = expect_programs(
      [](const at::Tensor& x) {
        return x.repeat_interleave(x.relu().to(at::kLong)).view({2, -1});
      },
      2, {kAll, numbers({4, 0, 0, 0})});
  EXPECT_THAT(report.recompiles[0], HasSubstr("was [10], is [4]"));
}

// Selections of another size in each call count as other sizes: never as programs that ran once.
TEST(Questions, CountsThatDifferInEachCallAreAlwaysCompiled) {
  const auto expect_compiled = [](const auto& fn) {
    constexpr int64_t kCounts = 20;
    auto step = antegrad::compile(fn);
    for (int64_t positive = 0; positive < kCounts; ++positive) {
      const auto data = at::arange(kCounts, at::kFloat) - static_cast<double>(positive) + 0.5;
      expect_as_eager(step, fn, data.flip(0));
    }
    EXPECT_EQ(step.report().eager_calls, 0);
    EXPECT_EQ(step.report().programs.size(), static_cast<size_t>(kCounts));
  };
  expect_compiled([](const at::Tensor& x) { return x.index({x > 0}).exp(); });
  expect_compiled([](const at::Tensor& x) { return at::nonzero(x > 0) * 2; });
  expect_compiled([](const at::Tensor& x) {
    const auto count = x.gt(0).sum().item<int64_t>();
    return std::get<0>(x.sin().topk(count));
  });
  expect_compiled(
      [](const at::Tensor& x) { return std::get<0>(at::_unique2(x.floor().relu().detach())) * 2; });
}

TEST(Questions, BranchesThatDifferInEachCallRunEagerlyAfterAWhile) {
  const auto fn = [](const at::Tensor& x) {
    auto y = x * 2;
    for (int64_t i = 0; i < x.size(0); ++i) {
      if (x[i].gt(0).item<bool>()) y = y + static_cast<double>(i);
    }
    return y;
  };
  auto step = antegrad::compile(fn);
  for (int64_t i = 0; i < 20; ++i) {
    const auto bits = at::tensor({i & 1, i & 2, i & 4, i & 8, i & 16}).to(at::kFloat);
    EXPECT_TRUE(same_bits(fn(bits), step(bits)));
  }
  EXPECT_EQ(step.report().programs.size(), 16U);
  EXPECT_EQ(step.report().eager_calls, 4);
}

std::atomic<int> counted_runs = 0;

at::Tensor counted(const at::Tensor& x) {
  ++counted_runs;
  return x.clone();
}

TORCH_LIBRARY_FRAGMENT(agtest, m) {
  m.def("counted(Tensor x) -> Tensor");
  m.impl("counted", c10::DispatchKey::CPU, counted);
  m.impl("counted", c10::DispatchKey::Meta, [](const at::Tensor& x) { return at::empty_like(x); });
}

TEST(Questions, WhatLedToOneIsNotComputedAgainForTheNext) {
  auto step = antegrad::compile([](const at::Tensor& x) {
    const auto y = call_op<at::Tensor(const at::Tensor&)>("counted", x);
    return y.index({y > 0}) + y.index({y > 1}).sum() + y.index({y > 2}).sum();
  });
  counted_runs = 0;
  step(kAll);
  EXPECT_EQ(counted_runs, 2);  // for the first question, and by the program
}

// The program of the count that was found continues the run that the question stopped.
TEST(Questions, WhatPrecedesAQuestionRunsOnce) {
  const auto fn = [](const at::Tensor& x) {
    const auto y = call_op<at::Tensor(const at::Tensor&)>("counted", x.detach());
    return x.index({y > 0}).exp() * 2;
  };
  auto step = antegrad::compile(fn, Options().with_audit(Audit::off));
  step(leaf_of(kOne));
  for (int round = 0; round < 2; ++round) {
    for (const auto& data : {kTwo, kAll, kOne}) {
      const auto eager = leaf_of(data), compiled = leaf_of(data);
      const at::Tensor expected = fn(eager);
      counted_runs = 0;
      const at::Tensor found = step(compiled);
      EXPECT_EQ(counted_runs, 1);
      EXPECT_TRUE(same_bits(expected, found));
      expected.sum().backward();
      found.sum().backward();
      EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
    }
  }
  EXPECT_EQ(step.report().programs.size(), 3U);
}

// Its generator would have to be as it was in the middle of the run.
TEST(Questions, AfterADrawARunStartsAgain) {
  expect_programs(
      [](const at::Tensor& x) {
        const auto y = at::dropout(x, 0.5, true);
        return y.index({x > 0}) * at::rand({});
      },
      4, {kOne, kTwo, kAll, kNone});
}

TEST(Questions, SizesOfWhatACustomOperatorReturns) {
  expect_programs(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&)>("tagged_positives", x.detach()) * 2;
      },
      3, {kOne, kTwo, kAll});
}

// The second question depends on the result of the first; another first answer leads to another
// second question.
TEST(Questions, OneOfTheAnswerToAnother) {
  expect_programs(
      [](const at::Tensor& x) {
        const auto positive = x.index({x > 0});
        if (positive.numel() == 0) return -x;
        return positive.max().gt(2).item<bool>() ? positive * 2 : positive.index({positive > 1});
      },
      4, {kOne, kTwo, kAll, kNone});
}

// The program would otherwise run for data that answer something else.
TEST(Questions, AreAskedAlthoughNothingReadsWhatWasSelected) {
  expect_programs([](const at::Tensor& x) { return x.index({x > 0}).numel() == 0 ? -x : x * 2; }, 4,
                  {kNone, kOne, kTwo, kAll});
  expect_programs([](const at::Tensor& x) { return x.index({x > 0}).sum().zero_() + x.sum(); }, 4,
                  {kNone, kOne, kTwo, kAll});
}

TEST(Questions, OfWhatWasDrawn) {
  expect_programs(
      [](const at::Tensor& x) {
        const auto noise = at::rand_like(x), more = at::dropout(x, 0.5, true);
        return (at::rand({}).gt(0.5).item<bool>() ? more * 2 : more) + at::rand_like(x) * noise;
      },
      1, {kAll, kNone});
}

TEST(Questions, OfAnArgumentThatIsWritten) {
  const auto fn = [](const at::Tensor& x) {
    x.add_(1);
    return x.index({x > 0}) * 2;
  };
  auto step = antegrad::compile(fn);
  for (const auto& data : {kOne, kTwo, kOne}) {
    auto eager = data.clone(), compiled = data.clone();
    EXPECT_TRUE(same_bits(fn(eager), step(compiled)));
    EXPECT_TRUE(same_bits(eager, compiled));
  }
  EXPECT_EQ(step.report().programs.size(), 2U);
}

// A mixture of experts as it is often written: each expert gets the rows that chose it.
TEST(Questions, RowsForExperts) {
  const std::vector<at::Tensor> experts = {at::randn({4, 4}), at::randn({4, 4})};
  const auto fn = [&](const at::Tensor& x) {
    const auto rows = x.view({2, 2}).repeat({2, 2});
    const auto choice = rows.sum(1).gt(0).to(at::kLong);
    auto out = at::zeros_like(rows);
    for (int64_t e = 0; e < 2; ++e) {
      const auto mine = at::nonzero(choice == e).squeeze(1);
      out = out.index_add(0, mine, rows.index_select(0, mine).mm(experts[e]));
    }
    return out;
  };
  expect_programs(fn, 3, {kOne, kTwo, kAll});
}

TEST(Questions, AMaskWhoseValuesHaveGradients) {
  expect_programs(
      [](const at::Tensor& x) {
        auto y = x * 2;
        const at::Tensor mask = x > 0;
        y.index_put_({mask}, x.sum());
        return y.index_put({mask}, x.index({mask}).sin());
      },
      4, {kOne, kTwo, kAll, kNone});
}

// The number of elements is then not asked.
TEST(Questions, AMaskWhoseValuesHaveNone) {
  const auto five = at::tensor(5.0f);
  expect_programs([&](const at::Tensor& x) { return (x * 2).index_put_({x > 0}, five); }, 1,
                  {kOne, kTwo, kAll, kNone});
}

TEST(Questions, BackwardFromOtherTangents) {
  const auto fn = [](const at::Tensor& x) {
    const at::Tensor positive = x.index({x > 0});
    return std::vector<at::Tensor>{positive.log(), x.sin()};
  };
  auto step = antegrad::compile(fn);
  for (const size_t which : {0U, 1U}) {
    for (const auto& data : {kOne, kTwo}) {
      const auto eager = leaf_of(data), compiled = leaf_of(data);
      fn(eager)[which].sum().backward();
      step(compiled)[which].sum().backward();
      EXPECT_TRUE(same_bits(eager.grad(), compiled.grad()));
    }
  }
  EXPECT_EQ(step.report().programs.size(), 2U);
}

TEST(Questions, MoreAnswersThanProgramsReplaceOneAnother) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.index({x > 0}) * 2; },
                                Options().with_max_programs(2));
  for (const auto& data : {kOne, kTwo, kAll, kOne}) {
    EXPECT_TRUE(same_bits(step(data), data.index({data > 0}) * 2));
  }
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_EQ(report.evictions, 2);
  EXPECT_EQ(report.eager_calls, 0);
}

template <class Function>
void expect_refused(const Function& fn, const char* why) {
  auto step = antegrad::compile(fn);
  const auto x = leaf_of(kAll);
  try {
    step(x);
    ADD_FAILURE() << "not refused";
  } catch (const DataDependentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(why));
    EXPECT_THAT(error.what(), HasSubstr("questions_test.cpp"));
  }
}

TEST(Questions, RefusedAreThoseWithTooManyAnswers) {
  expect_refused([](const at::Tensor& x) { return x * x.sum().item<float>(); },
                 "another in each call");
}

// The effect would happen again in the program for the other answer.
TEST(Questions, RefusedAreThoseAfterAnEffect) {
  expect_refused(
      [](const at::Tensor& x) {
        note(x, "before");
        return x.sum().gt(0).item<bool>() ? x : -x;
      },
      "after an operator with effects");
}

TEST(Questions, BeforeAnEffectTheyAreAskedFirst) {
  const auto fn = [](const at::Tensor& x) {
    const bool positive = x.sum().gt(0).item<bool>();
    note(x, positive ? "positive" : "negative");
    return positive ? x * 2 : -x;
  };
  auto step = antegrad::compile(fn);
  step(kAll);
  step(kNone);
  Journal::instance().take();
  step(kAll);
  step(kNone);
  EXPECT_THAT(Journal::instance().take(), ElementsAre("positive 10", "negative -10"));
}

// The forward does not compute a value that is overwritten, so it cannot check the answer there.
// The backward of that value, whose gradient is zero, needs the assumed answer.
TEST(Questions, OfWhatIsOverwrittenAreTypedErrorsInTheBackward) {
  const auto fn = [](const at::Tensor& x) {
    const auto rows = at::nonzero(x > 0).select(1, 0);
    auto y = at::index_add(x, 0, rows, x.index_select(0, rows)) * x;
    y.fill_(0.25);
    return y.sum() + x.exp().sum();
  };
  auto step = antegrad::compile(fn);
  expect_as_eager(step, fn, kOne);
  expect_as_eager(step, fn, kOne);
  const auto other = leaf_of(kAll);
  const auto result = step(other);
  EXPECT_TRUE(same_bits(fn(kAll), result.detach()));
  try {
    result.backward();
    EXPECT_TRUE(same_bits(kAll.exp(), other.grad()));
  } catch (const BackwardError& error) {
    EXPECT_THAT(error.what(), HasSubstr("captured"));
  }
}

}  // namespace questions_test
}  // namespace antegrad::testing
