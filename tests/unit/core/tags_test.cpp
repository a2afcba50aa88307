#include "partition/tags.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partition/split.h"
#include "partitions.h"
#include "passes/cse.h"

namespace antegrad::testing {
namespace tags_test {

std::string backward_nodes(const Partition& partition) {
  const std::string text = to_text(partition.backward);
  const size_t begin = text.find("nodes\n") + 6;
  return text.substr(begin, text.find("outputs\n") - begin);
}

Partition partition_of(const std::string& graph) {
  Partition partition = default_partition(graph_of(graph));
  verify_both(partition);
  return partition;
}

// Two checkpoints in a row: the output of the first is the input of the second.
const std::string kInARow = R"(blocks none, none
inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::sin.default(%0) in 0 must_recompute
  %2: f32[4] = aten::sin.default(%1) in 0 must_recompute
  %3: f32[4] = aten::sin.default(%2) in 1 must_recompute
  %4: f32[4] = aten::sin.default(%3) in 1 must_recompute
backward
  %10: f32[4] = aten::cos.default(%3)
  %11: f32[4] = aten::mul.Tensor(%9, %10)
  %12: f32[4] = aten::cos.default(%2)
  %13: f32[4] = aten::mul.Tensor(%11, %12)
  %14: f32[4] = aten::cos.default(%1)
  %15: f32[4] = aten::mul.Tensor(%13, %14)
  %16: f32[4] = aten::cos.default(%0)
  %17: f32[4] = aten::mul.Tensor(%15, %16)
outputs
  %4 result grad
  %17 gradient 0
)";

TEST(Tags, ConsecutiveCheckpointsKeepWhatIsBetweenThem) {
  const Partition partition = partition_of(kInARow);
  EXPECT_EQ(saved_text(partition), "%0 primal, %2 intermediate");
  EXPECT_EQ(backward_nodes(partition), R"(  %3: f32[4] = aten::sin.default(%2) in 1 must_recompute
backward
  %10: f32[4] = aten::cos.default(%3)
  %11: f32[4] = aten::mul.Tensor(%9, %10)
  %12: f32[4] = aten::cos.default(%2)
  %13: f32[4] = aten::mul.Tensor(%11, %12)
forward
  %1: f32[4] = aten::sin.default(%0) in 0 must_recompute
backward
  %14: f32[4] = aten::cos.default(%1)
  %15: f32[4] = aten::mul.Tensor(%13, %14)
  %16: f32[4] = aten::cos.default(%0)
  %17: f32[4] = aten::mul.Tensor(%15, %16)
)");
}

TEST(Tags, TheMinimumCutKeepsToThem) {
  const Partition partition = min_cut_partition(graph_of(kInARow));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal, %2 intermediate");
  std::string rules;
  for (const Decision& decision : partition.decisions) rules += std::string(decision.rule) + " ";
  EXPECT_EQ(rules, "input leaves_checkpoint must_recompute must_recompute ");
}

// Three checkpoints inside another one. The backward of the third needs the outputs of the first
// two: it recomputes them, drops their interior, and recomputes that again for their own backward.
const std::string kNested = R"(blocks none, 0, 0, 0
inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::sin.default(%0) in 1 must_recompute
  %2: f32[4] = aten::sin.default(%1) in 1 must_recompute
  %3: f32[4] = aten::sin.default(%2) in 2 must_recompute
  %4: f32[4] = aten::sin.default(%3) in 2 must_recompute
  %5: f32[4] = aten::sin.default(%4) in 3 must_recompute
  %6: f32[4] = aten::sin.default(%5) in 3 must_recompute
backward
  %10: f32[4] = aten::mul.Tensor(%9, %5)
  %11: f32[4] = aten::mul.Tensor(%10, %4)
  %12: f32[4] = aten::mul.Tensor(%11, %3)
  %13: f32[4] = aten::mul.Tensor(%12, %2)
  %14: f32[4] = aten::mul.Tensor(%13, %1)
  %15: f32[4] = aten::mul.Tensor(%14, %0)
outputs
  %6 result grad
  %15 gradient 0
)";

TEST(Tags, NestedCheckpointsComputeInnerOnesTwice) {
  const Partition partition = partition_of(kNested);
  EXPECT_EQ(saved_text(partition), "%0 primal");
  EXPECT_EQ(backward_nodes(partition), R"(  %16: f32[4] = aten::sin.default(%0) in 1 must_recompute
  %2: f32[4] = aten::sin.default(%16) in 1 must_recompute
  %17: f32[4] = aten::sin.default(%2) in 2 must_recompute
  %4: f32[4] = aten::sin.default(%17) in 2 must_recompute
  %5: f32[4] = aten::sin.default(%4) in 3 must_recompute
backward
  %10: f32[4] = aten::mul.Tensor(%9, %5)
  %11: f32[4] = aten::mul.Tensor(%10, %4)
forward
  %3: f32[4] = aten::sin.default(%2) in 2 must_recompute
backward
  %12: f32[4] = aten::mul.Tensor(%11, %3)
  %13: f32[4] = aten::mul.Tensor(%12, %2)
forward
  %1: f32[4] = aten::sin.default(%0) in 1 must_recompute
backward
  %14: f32[4] = aten::mul.Tensor(%13, %1)
  %15: f32[4] = aten::mul.Tensor(%14, %0)
)");
}

TEST(Tags, WhatMustNotRunTwiceIsKeptAndDrawsRunAgain) {
  const Partition partition = partition_of(R"(generators cpu
blocks none
inputs
  %0: f32[4] primal argument 0 grad
  %1: token effect
  %2: token generator 0
  %9: f32[4] tangent 0
nodes
  %3: f32[4], %4: token = mine::log.default(%0; %1) in 0 must_recompute
  %5: f32[4], %6: token = aten::bernoulli.p(%3, p=0.5, generator=none; %2) in 0 must_recompute
  %7: f32[4] = aten::mul.Tensor(%3, %5) in 0 must_recompute
  %8: f32[4] = aten::sin.default(%7) in 0 must_recompute
backward
  %10: f32[4] = aten::mul.Tensor(%9, %7)
outputs
  %8 result grad
  %4 effect
  %6 generator 0
  %10 gradient 0
)");
  EXPECT_EQ(saved_text(partition), "%3 intermediate, %2 generator state");
}

TEST(Tags, PoliciesChooseByOperator) {
  const auto saved = [](const std::string& says, bool min_cut) {
    const Graph joint = graph_of(R"(blocks none
inputs
  %0: f32[64, 64] primal argument 0 grad
  %9: f32[64, 64] tangent 0
nodes
  %1: f32[64, 64] = aten::sin.default(%0) in 0 must_recompute
  %2: f32[64, 64] = aten::mm.default(%1, %1) in 0 )" +
                                 says + R"(
  %3: f32[64, 64] = aten::sin.default(%2) in 0 must_recompute
backward
  %10: f32[64, 64] = aten::mul.Tensor(%9, %2)
  %11: f32[64, 64] = aten::mul.Tensor(%10, %1)
outputs
  %3 result grad
  %11 gradient 0
)");
    return saved_text(min_cut ? min_cut_partition(joint) : default_partition(joint));
  };
  for (const bool min_cut : {false, true}) {
    EXPECT_EQ(saved("must_save", min_cut), "%0 primal, %2 intermediate");
    EXPECT_EQ(saved("prefer_save", min_cut), "%0 primal, %2 intermediate");
    EXPECT_EQ(saved("must_recompute", min_cut), "%0 primal");
  }
  // The argument is in memory anyway.
  EXPECT_EQ(saved("prefer_recompute", true), "%0 primal");
}

TEST(Tags, AViewThatLeavesKeepsItsBase) {
  const Partition partition = partition_of(R"(blocks none
inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[2] tangent 0
nodes
  %1: f32[4] = aten::sin.default(%0) in 0 must_recompute
  %2: f32[2] &1 = aten::slice.Tensor(%1, 0, 0, 2, 1) in 0 must_recompute
  %3: f32[2] = aten::sin.default(%2)
backward
  %10: f32[2] = aten::mul.Tensor(%9, %2)
  %11: f32[4] = mine::back.default(%10)
outputs
  %3 result grad
  %11 gradient 0
)");
  EXPECT_EQ(saved_text(partition), "%1 view base");
}

// Mean and deviation are internal to the checkpoint; the normalised tensor is its output.
TEST(Tags, OneOutputOfANodeLeavesAndAnotherIsComputedAgain) {
  const Partition partition = partition_of(R"(blocks none
inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4], %2: f32[4] = aten::var_mean.correction(%0, [0], none, true) in 0 must_recompute
  %3: f32[4] = aten::sin.default(%1)
backward
  %10: f32[4] = aten::mul.Tensor(%9, %1)
  %11: f32[4] = aten::mul.Tensor(%10, %2)
outputs
  %3 result grad
  %11 gradient 0
)");
  EXPECT_EQ(saved_text(partition), "%0 primal, %1 intermediate");
  EXPECT_EQ(backward_nodes(partition), R"(backward
  %10: f32[4] = aten::mul.Tensor(%9, %1)
forward
  %12: f32[4], %2: f32[4] = aten::var_mean.correction(%0, [0], none, true) in 0 must_recompute
backward
  %11: f32[4] = aten::mul.Tensor(%10, %2)
)");
}

// One cast of a weight shared by two checkpoints would have to be saved.
TEST(Tags, CseDoesNotShareBetweenCheckpoints) {
  const auto nodes = [](const char* second_block) {
    return cse(graph_of(R"(blocks none, none
inputs
  %0: f32[4] primal parameter "w" grad
nodes
  %1: f32[4] = aten::sin.default(%0) in 0 must_recompute
  %2: f32[4] = aten::sin.default(%0) in )" +
                        std::string(second_block) + R"( must_recompute
  %3: f32[4] = aten::add.Tensor(%1, %2, scalar(1))
outputs
  %3 result
)"))
        .nodes.size();
  };
  EXPECT_EQ(nodes("0"), 2U);
  EXPECT_EQ(nodes("1"), 3U);
}

}  // namespace tags_test
}  // namespace antegrad::testing
