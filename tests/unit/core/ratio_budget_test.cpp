#include "partition/ratio_budget.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "partition/knapsack.h"
#include "partition/min_cut.h"
#include "partitions.h"

namespace antegrad::testing {
namespace ratio_budget_test {

// Two products whose results the backward reads: one large and fast, one small and slow. The range
// of the ratio: the bytes saved without a budget, 4096 + 1024 plus the primals that the backward
// reads, minus all primals.
const std::string kTwo = R"(inputs
  %0: f32[32, 8] primal argument 0 grad
  %1: f32[8, 32] primal argument 1
  %2: f32[16, 4096] primal argument 2 grad
  %3: f32[4096, 16] primal argument 3
  %9: f32[] tangent 0
nodes
  %4: f32[32, 32] = aten::mm.default(%0, %1)
  %5: f32[32, 32] = aten::sigmoid.default(%4)
  %6: f32[16, 16] = aten::mm.default(%2, %3)
  %7: f32[16, 16] = aten::sigmoid.default(%6)
  %8: f32[] = aten::sum.default(%5, none)
  %10: f32[] = aten::sum.default(%7, none)
  %11: f32[] = aten::add.Tensor(%8, %10, alpha=scalar(1))
backward
  %12: f32[32, 32] = aten::mul.Tensor(%9, %5)
  %13: f32[16, 16] = aten::mul.Tensor(%9, %7)
  %14: f32[32, 8] = mine::back.default(%12, %0, %1)
  %15: f32[16, 4096] = mine::back.default(%13, %2, %3)
outputs
  %11 result grad
  %14 gradient 0
  %15 gradient 2
)";

std::string saved_of(const Partition& partition) {
  std::string text;
  for (const SavedSlot& saved : partition.plan.saved) {
    if (name(saved) == "primal") continue;
    text += (text.empty() ? "%" : " %") + to_string(saved.value);
  }
  return text;
}

MinCutOptions at_ratio(double ratio, BudgetSolver solver = BudgetSolver::dp,
                       RuntimeEstimator estimator = RuntimeEstimator::flops) {
  MinCutOptions options;
  options.activation_memory_budget = ratio;
  options.activation_memory_budget_solver = solver;
  options.activation_memory_budget_runtime_estimator = estimator;
  return options;
}

std::string saved_at(double ratio, BudgetSolver solver = BudgetSolver::dp,
                     RuntimeEstimator estimator = RuntimeEstimator::flops) {
  const Partition partition = min_cut_partition(graph_of(kTwo), at_ratio(ratio, solver, estimator));
  verify_both(partition);
  return saved_of(partition);
}

TEST(RatioBudget, OneIsTheMinimumCutAndZeroSavesInputsOnly) {
  EXPECT_EQ(saved_at(1), saved_of(min_cut_partition(graph_of(kTwo))));
  EXPECT_EQ(saved_at(1), "%4 %6");
  EXPECT_EQ(saved_at(0), "");
}

TEST(RatioBudget, BetweenThemTheMostTimeIsKept) {
  // The products take 2 * 8 and 2 * 4096 operations an element, 16 Ki and 2 Mi in all.
  EXPECT_EQ(saved_at(0.9), "%6");
  EXPECT_EQ(saved_at(0.3), "%6");
  EXPECT_EQ(saved_at(0.1), "");
  // If each node counts one, both have the same value, and only one fits. Of equal items the solver
  // takes the first, which is the larger one.
  EXPECT_EQ(saved_at(0.9, BudgetSolver::dp, RuntimeEstimator::testing), "%4");
  // Exactly the bytes of the smaller one.
  EXPECT_EQ(saved_at(0.9, BudgetSolver::greedy, RuntimeEstimator::testing), "%6");
  EXPECT_EQ(saved_at(0.2, BudgetSolver::greedy), "%6");
  EXPECT_EQ(saved_at(0.19, BudgetSolver::greedy), "");
}

TEST(RatioBudget, TheIntegerProgramDecidesAsWell) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without Cbc";
  EXPECT_EQ(saved_at(0.2, BudgetSolver::ilp), "%6");
  EXPECT_EQ(saved_at(0.19, BudgetSolver::ilp), "");
}

TEST(RatioBudget, AProfileCountsWhereItIsGiven) {
  const Graph graph = graph_of(kTwo);
  const MinCutOptions options = at_ratio(0.9, BudgetSolver::dp, RuntimeEstimator::profile);
  std::vector<double> seconds(graph.nodes.size(), 1e-6);
  seconds[0] = 1;
  EXPECT_EQ(saved_of(min_cut_partition(graph, options, {}, seconds)), "%4");
  seconds[2] = 2;
  EXPECT_EQ(saved_of(min_cut_partition(graph, options, {}, seconds)), "%6");
}

TEST(RatioBudget, DecisionsNameTheBudgetWhereItDecided) {
  const Partition partition = min_cut_partition(graph_of(kTwo), at_ratio(0.3));
  std::string text;
  for (const Decision& decision : partition.decisions) {
    if (decision.rule == "memory_budget") text += "%" + to_string(decision.value);
    if (decision.value == 6) {
      EXPECT_EQ(decision.rule, "compute_intensive");
    }
  }
  EXPECT_EQ(text, "%4");
}

TEST(RatioBudget, WhatMustNotRunTwiceIsSavedUnderAnyRatio) {
  // An operator with unknown cost, a draw that is smaller than a generator state, and one that is
  // larger.
  const std::string sections = R"(generators cpu
inputs
  %0: f32[64, 64] primal argument 0 grad
  %1: token generator 0
  %9: f32[64, 64] tangent 0
nodes
  %2: f32[64, 64] = mine::unheard_of.default(%0)
  %3: f32[64], %4: token = aten::rand.default([64], f32, none, cpu, none; %1)
  %5: f32[64, 64], %6: token = aten::bernoulli.p(%0, 0.5, none; %4)
  %7: f32[64, 64] = aten::mul.Tensor(%2, %3)
  %8: f32[64, 64] = aten::mul.Tensor(%7, %5)
backward
  %10: f32[64, 64] = aten::mul.Tensor(%9, %2)
  %11: f32[64, 64] = aten::mul.Tensor(%10, %3)
  %12: f32[64, 64] = aten::mul.Tensor(%11, %5)
outputs
  %8 result grad
  %6 generator 0
  %12 gradient 0
)";
  const Partition partition = min_cut_partition(graph_of(sections), at_ratio(0));
  verify_both(partition);
  // %4 is saved as a generator state, from which %5 is drawn again.
  EXPECT_EQ(saved_text(partition),
            "%0 primal, %2 intermediate, %3 intermediate, %4 generator state");
}

TEST(RatioBudget, ACurveGoesFromInputsToTheMinimumCut) {
  const std::vector<RatioPoint> curve = ratio_curve(graph_of(kTwo));
  ASSERT_EQ(curve.size(), 21u);
  EXPECT_EQ(curve.front().ratio, 0);
  EXPECT_EQ(curve.back().ratio, 1);
  EXPECT_EQ(curve.front().recomputed, 2 * 8 * 32 * 32 + 2 * 4096 * 16 * 16);
  EXPECT_EQ(curve.front().memory, 0);
  EXPECT_EQ(curve[10].recomputed, 2 * 8 * 32 * 32);
  EXPECT_EQ(curve[10].saved_bytes - curve[0].saved_bytes, 1024);
  EXPECT_DOUBLE_EQ(curve[10].memory, 0.2);
  EXPECT_EQ(curve.back().recomputed, 0);
  EXPECT_EQ(curve.back().memory, 1);
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LE(curve[i].recomputed, curve[i - 1].recomputed);
    EXPECT_DOUBLE_EQ(curve[i].ratio, static_cast<double>(i) / 20);
  }
  EXPECT_EQ(ratio_curve(graph_of(kTwo), {}, {}, 4).size(), 5u);
}

TEST(RatioBudget, WithoutGradientsThereIsNothingToDecide) {
  const std::string sections =
      "inputs\n  %0: f32[4] primal argument 0\nnodes\n  %1: f32[4] = aten::neg.default(%0)\n"
      "outputs\n  %1 result\n";
  EXPECT_TRUE(ratio_curve(graph_of(sections)).empty());
  EXPECT_EQ(min_cut_partition(graph_of(sections), at_ratio(0.5)).forward.nodes.size(), 1u);
}

TEST(RatioBudget, WrongOptionsSaySo) {
  for (const double ratio : {-0.1, 1.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error<OptionError>([&] { min_cut_partition(graph_of(kTwo), at_ratio(ratio)); },
                              "activation_memory_budget from 0 to 1");
  }
  expect_error<OptionError>(
      [] {
        min_cut_partition(graph_of(kTwo),
                          at_ratio(0.5, BudgetSolver::dp, RuntimeEstimator::profile), {}, {1.0});
      },
      "the seconds of 11 nodes");
}

}  // namespace ratio_budget_test
}  // namespace antegrad::testing
