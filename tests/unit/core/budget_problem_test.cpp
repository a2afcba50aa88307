#include "partition/budget/problem.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"
#include "partition/budget/timetable.h"

namespace antegrad::testing {
namespace budget_problem_test {

using budget::Problem;

/// A draw with two outputs, a view, a value of the backward that does not depend on a tangent, and
/// a written input.
const char* const kGraph = R"(generators cpu
inputs
  %0: f32[4] primal argument 0 grad mutates_data
  %1: token generator 0
  %9: f32[4] tangent 0
nodes
  %2: f32[4], %3: bool[4], %4: token = aten::native_dropout.default(%0, 0.5, true; %1)
  %5: f32[2, 2] &2 = aten::view.default(%2, [2, 2])
  %6: f32[2, 2] = aten::cos.default(%5)
  %7: f32[4] = aten::neg.default(%2)
backward
  %8: f32[2, 2] = aten::sin.default(%5)
  %10: f32[2, 2] = aten::mul.Tensor(%9, %8)
  %11: f32[2, 2] = aten::mul.Tensor(%10, %3)
outputs
  %6 result grad
  %7 mutated 0
  %4 generator 0
  %11 gradient 0
)";

TEST(BudgetProblem, HasStoragesAndWhatComputesThem) {
  const Graph graph = graph_of(kGraph);
  ByteRules rules;
  rules.granule = 1;
  const Problem problem =
      budget::make_problem(graph, {1e-6, 5e-6, 2e-6, 3e-6, 4e-6, 6e-6, 7e-6}, rules);
  // The view is not an operation, and the sine stays in the backward, where it was captured.
  ASSERT_EQ(problem.operations.size(), 6u);
  EXPECT_EQ(problem.forward_count, 3);
  std::vector<ValueId> ids;
  for (const budget::Value& value : problem.values) ids.push_back(value.id);
  EXPECT_EQ(ids, (std::vector<ValueId>{2, 3, 6, 7, 8, 10, 11}));
  EXPECT_EQ(problem.values[0].bytes, 16);
  EXPECT_EQ(problem.values[1].bytes, 4);
  EXPECT_EQ(lists(problem.makes),
            (std::vector<std::vector<int32_t>>{{0, 1}, {2}, {3}, {4}, {5}, {6}}));
  EXPECT_EQ(lists(problem.reads),
            (std::vector<std::vector<int32_t>>{{}, {0}, {0}, {0}, {4}, {1, 5}}));
  EXPECT_EQ(lists(problem.readers),
            (std::vector<std::vector<int32_t>>{{1, 2, 3}, {5}, {}, {}, {4}, {5}, {}}));
  EXPECT_EQ(problem.tangent_bytes, 16);
  EXPECT_EQ(problem.time, 23'000'000);
  EXPECT_EQ(problem.operation(0).state_bytes, generator_state_bytes("cpu"));
  EXPECT_TRUE(problem.operation(2).required);
  EXPECT_TRUE(problem.operation(3).required);
  EXPECT_TRUE(problem.operation(3).backward);
  EXPECT_TRUE(problem.value(2).result);
  EXPECT_TRUE(problem.value(3).written_back);
  EXPECT_TRUE(problem.value(6).gradient);
  EXPECT_TRUE(problem.is_choice(0));
  EXPECT_FALSE(problem.is_choice(2));
  EXPECT_FALSE(problem.is_choice(4));
  EXPECT_FALSE(problem.is_choice(5));
}

TEST(BudgetProblem, LoopsEndAtKernelsThatTheBackwardReads) {
  const Graph graph = graph_of(R"(inputs
  %0: f32[4, 4] primal argument 0 grad
  %1: f32[4, 4] tangent 0
nodes
  %2: f32[4, 4] = aten::sin.default(%0)
backward
  %3: f32[4, 4] = aten::mul.Tensor(%1, %2)
  %4: f32[4, 4] = aten::mm.default(%3, %0)
  %5: f32[4, 4] = aten::mm.default(%3, %1)
  %6: f32[4, 4] = aten::neg.default(%4)
outputs
  %2 result grad
  %5 gradient 0
  %6 gradient 0
)");
  const Problem problem = budget::make_problem(graph, std::vector<double>(5, 1e-6));
  EXPECT_EQ(problem.loops, (std::vector<int32_t>{0, 0, 1, 1}));
}

TEST(BudgetProblem, SavingAFusedValueTakesTime) {
  const Graph graph = graph_of(R"(inputs
  %0: f32[4, 4] primal argument 0 grad
  %1: f32[4, 4] tangent 0
nodes
  %2: f32[4, 4] = aten::sin.default(%0)  # 0
  %3: f32[4, 4] = aten::neg.default(%2)  # 1
backward
  %4: f32[4, 4] = aten::mul.Tensor(%1, %2)  # 2
outputs
  %3 result grad
  %4 gradient 0
)");
  ByteRules rules;
  rules.granule = 1;
  rules.fused = {true, false, false};
  const Problem problem =
      budget::make_problem(graph, std::vector<double>(3, 1e-6), rules, {}, 1e-9);
  EXPECT_EQ(problem.value(0).saving_time, 2 * 64 * 1'000);
  EXPECT_EQ(problem.value(1).saving_time, 0);
  budget::Timetable timetable(problem);
  EXPECT_EQ(timetable.extra(), 1'000'000);  // the sine runs again
  timetable.set(budget::Plan(problem.values.size(), budget::kSave));
  EXPECT_EQ(timetable.extra(), 2 * 64 * 1'000);
}

}  // namespace budget_problem_test
}  // namespace antegrad::testing
