#include "partition/default_partition.h"

#include <gtest/gtest.h>

#include "partitions.h"
#include "passes/dce.h"
#include "passes/size_only_inputs.h"

namespace antegrad::testing {
namespace default_partition_test {

TEST(DefaultPartition, AnMlpSavesWhatItsFormulasRead) {
  const Partition partition = default_partition(graph_from_file("mlp.agraph"));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal, %3 primal, %7 intermediate, %10 intermediate");
  EXPECT_EQ(partition.plan.saved[2].bytes, IntExpr(16 * 32 * 4));
  EXPECT_EQ(partition.forward.name, "mlp.forward");
  // The forward ends with the loss and contains no node of the backward.
  EXPECT_EQ(partition.forward.nodes.size(), 7u);
  for (const Node& node : partition.forward.nodes) EXPECT_EQ(node.phase, Phase::forward);
  EXPECT_EQ(partition.forward.inputs.size(), 5u);
  EXPECT_EQ(partition.backward.inputs.size(), 5u);
  EXPECT_EQ(partition.backward.inputs.back().kind, InputKind::tangent);
  EXPECT_EQ(partition.backward.outputs.size(), 5u);
}

TEST(DefaultPartition, ViewsAreMadeAgainJustBeforeTheirFirstUse) {
  const Partition partition = default_partition(graph_from_file("mlp.agraph"));
  // %17 = t(%9) and %9 = t(%3) serve the matrix product; %8 is a view of the saved %7.
  EXPECT_EQ(node_list(partition.backward)
                .find("%9: f32[32, 4]{1, 32} &3 = aten::t.default(%3)\n"
                      "%17: f32[4, 32] &3 = aten::t.default(%9)\n"),
            node_list(partition.backward).find("%9:"));
  EXPECT_NE(node_list(partition.backward)
                .find("%8: f32[16, 32] &7 = aten::detach.default(%7)\n"
                      "%23:"),
            std::string::npos);
}

TEST(DefaultPartition, ASplitOfASavedValueIsMadeAgainOnce) {
  const Partition partition =
      default_partition(dce(size_only_inputs(graph_from_file("views.agraph"))));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%2 intermediate");
  EXPECT_EQ(partition.plan.saved[0].bytes, IntExpr::symbol(0) * 24);
  int splits = 0;
  for (const Node& node : partition.backward.nodes) {
    splits += node.op == Op::intern("aten::split.Tensor");
  }
  EXPECT_EQ(splits, 1);
}

TEST(DefaultPartition, TheBackwardDrawsFromATokenOfItsOwn) {
  const Partition partition = default_partition(graph_from_file("dropout.agraph"));
  verify_both(partition);
  const Output& last = partition.forward.outputs[1];
  EXPECT_EQ(last.kind, OutputKind::generator_token);
  EXPECT_EQ(last.value, ValueId(4));
  bool found = false;
  for (const Input& input : partition.backward.inputs) {
    if (input.kind != InputKind::generator_token) continue;
    found = true;
    EXPECT_EQ(input.index, 0);
    EXPECT_NE(input.value, ValueId(4));
    EXPECT_EQ(partition.backward.nodes.back().inputs.back(), input.value);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(partition.backward.outputs[0].kind, OutputKind::generator_token);
  EXPECT_EQ(partition.backward.outputs[0].value, ValueId(12));
}

TEST(DefaultPartition, ABackwardThatDrawsNothingHasNoToken) {
  const Partition partition = default_partition(graph_of(R"(generators cpu
inputs
  %0: f32[4] primal argument 0 grad
  %1: token generator 0
  %9: f32[4] tangent 0
nodes
  %2: f32[4], %3: token = aten::bernoulli.p(%0, 0.5, none; %1)
backward
  %4: f32[4] = aten::mul.Tensor(%9, %2)
outputs
  %2 result
  %3 generator 0
  %4 gradient 0
)"));
  verify_both(partition);
  EXPECT_EQ(partition.backward.inputs.size(), 2u);
  EXPECT_EQ(saved_text(partition), "%2 result");
  EXPECT_EQ(partition.forward.outputs[1].value, ValueId(3));
}

TEST(DefaultPartition, AnInferenceGraphHasAnEmptyBackward) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal
nodes
  %2: f32[4] = aten::neg.default(%0)
outputs
  %2 result
)"));
  EXPECT_EQ(partition.forward.nodes.size(), 1u);
  EXPECT_TRUE(partition.backward.nodes.empty());
  EXPECT_TRUE(partition.backward.inputs.empty());
  EXPECT_TRUE(partition.plan.saved.empty());
}

TEST(DefaultPartition, ABaseThatOnlyViewsAreReadOfIsReportedAsSuch) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4, 6] primal argument 0 grad
  %9: f32[6] tangent 0
nodes
  %1: f32[4, 6] = aten::neg.default(%0)
  %2: f32[6] &1 = aten::select.int(%1, 0, 0)
  %3: f32[6] = aten::relu.default(%2)
backward
  %4: f32[6] = aten::mul.Tensor(%9, %2)
  %5: f32[4, 6] = aten::select_backward.default(%4, [4, 6], 0, 0)
outputs
  %3 result
  %5 gradient 0
)"));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%1 view base");
  EXPECT_EQ(partition.plan.saved[0].bytes, IntExpr(96));
}

TEST(DefaultPartition, WhatWasCopiedToMemoryWithHolesIsSavedWithoutThem) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4, 6] primal argument 0 grad
  %9: f32[4, 6] tangent 0
nodes
  %1: f32[4, 6] = aten::sigmoid.default(%0)
  %2: f32[4, 6]{24, 1} = antegrad::restride.default(%1, strides=[24, 1])
  %3: f32[4, 6]{1, 4} = antegrad::restride.default(%1, strides=[1, 4])
  %4: f32[4, 6] = aten::neg.default(%2)
backward
  %5: f32[4, 6] = aten::mul.Tensor(%9, %2)
  %6: f32[4, 6] = aten::mul.Tensor(%5, %3)
outputs
  %4 result
  %6 gradient 0
)"));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%1 intermediate, %3 intermediate");
}

TEST(DefaultPartition, ComputedSizesAreSavedAsSizes) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: int = mine::length.default(%0)
  %2: f32[4] = mine::scale.default(%0, %1)
backward
  %3: f32[4] = mine::scale.default(%9, %1)
outputs
  %2 result
  %3 gradient 0
)"));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%1 size");
}

TEST(DefaultPartition, AValueComputedForTheBackwardAloneIsMadeInTheForward) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::neg.default(%0)
  %2: f32[4] = aten::cos.default(%0)
backward
  %3: f32[4] = aten::mul.Tensor(%9, %2)
outputs
  %1 result
  %3 gradient 0
)"));
  EXPECT_EQ(saved_text(partition), "%2 intermediate");
  EXPECT_EQ(partition.forward.nodes.size(), 2u);
}

TEST(DefaultPartition, GradientsTakenInsideTheFunctionBelongToTheForward) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::cos.default(%0)
backward
  %2: f32[4] = aten::neg.default(%1)
  %3: f32[4] = aten::mul.Tensor(%9, %2)
outputs
  %2 result
  %3 gradient 0
)"));
  EXPECT_EQ(saved_text(partition), "%2 result");
  EXPECT_EQ(partition.forward.nodes.size(), 2u);
  EXPECT_EQ(partition.backward.nodes.size(), 1u);
}

TEST(DefaultPartition, ACollectiveOfTheBackwardStaysThereThoughNobodyReadsIt) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::cos.default(%0)
  %2: f32[4] = _c10d_functional::all_reduce.default(%1, "sum", "0")
backward
  %3: f32[4] = _c10d_functional::all_reduce.default(%9, "sum", "0")
outputs
  %1 result
  none gradient 0
)"));
  EXPECT_EQ(partition.forward.nodes.size(), 2u);
  EXPECT_EQ(partition.backward.nodes.size(), 1u);
}

}  // namespace default_partition_test
}  // namespace antegrad::testing
