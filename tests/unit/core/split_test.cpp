#include "partition/split.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "partition/default_partition.h"
#include "partitions.h"

namespace antegrad::testing {
namespace {

TEST(Split, RecomputesWhatIsNotSaved) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::neg.default(%0)  # 0
  %2: f32[4] = aten::cos.default(%1)  # 1
  %3: f32[4] = aten::relu.default(%2)  # 2
backward
  %4: f32[4] = aten::mul.Tensor(%9, %2)  # 3
outputs
  %3 result
  %4 gradient 0
)");
  std::vector<bool> saved(joint.values.size(), false);
  const auto primal_only = [&] {
    saved[0] = true;
    return split_at(joint, saved);
  };
  const Partition partition = primal_only();
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal");
  EXPECT_EQ(node_list(partition.backward),
            "%1: f32[4] = aten::neg.default(%0)\n"
            "%2: f32[4] = aten::cos.default(%1)\n"
            "%4: f32[4] = aten::mul.Tensor(%9, %2)\n");
  EXPECT_EQ(partition.backward.nodes[0].id, 0);
  EXPECT_EQ(partition.forward.nodes.size(), 3u);
}

TEST(Split, OutputsOfARecomputedNodeAreNotSavedAsWell) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4], %2: f32[4] = aten::frexp.Tensor(%0)
  %3: f32[4] = aten::add.Tensor(%1, %2, scalar(1))
backward
  %4: f32[4] = aten::mul.Tensor(%9, %1)
  %5: f32[4] = aten::mul.Tensor(%4, %2)
outputs
  %3 result
  %5 gradient 0
)");
  std::vector<bool> saved(joint.values.size(), false);
  saved[0] = saved[2] = true;
  const Partition partition = split_at(joint, saved);
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal");
}

TEST(Split, RefusesToDrawTwice) {
  const Graph joint = graph_from_file("dropout.agraph");
  std::vector<bool> saved(joint.values.size(), true);
  saved[3] = saved[5] = false;
  expect_error<GraphError>([&] { split_at(joint, saved); }, "must not run twice");
}

TEST(Split, RefusesAResultThatDependsOnATangent) {
  expect_error<GraphError>(
      [] {
        default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
backward
  %1: f32[4] = aten::neg.default(%9)
outputs
  %1 result
  none gradient 0
)"));
      },
      "depends on the tangent %9");
}

}  // namespace
}  // namespace antegrad::testing
