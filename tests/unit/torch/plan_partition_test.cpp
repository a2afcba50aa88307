// The row of the partitioner determines what is measured. Measurements that are passed in decide
// the partition.

#include "compile/plan_partition.h"

#include <gtest/gtest.h>

#include "compile/pipeline.h"
#include "partition/split.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace plan_partition_test {

const ops::AttrTables kNoTables;

// y = w * exp(x), and its gradients.
Graph joint() {
  const auto meta = dense({4});
  JointGraph b("joint");
  const auto x = b.primal(meta), w = b.primal(meta);
  const auto tangent = b.tangent(0, meta);
  const auto e = b.call("aten::exp.default", {x}, meta);
  b.result(b.call("aten::mul.Tensor", {w, e}, meta));
  b.begin_backward();
  const auto to_e = b.call("aten::mul.Tensor", {tangent, w}, meta);
  b.gradient(0, b.call("aten::mul.Tensor", {to_e, e}, meta));
  b.gradient(1, b.call("aten::mul.Tensor", {tangent, e}, meta));
  return b.finish();
}

// Saves the results of nodes that take longer than a second.
Options save_slow() {
  static const Partitioner registered = register_partitioner(
      {.name = "slow",
       .needs = [](const PartitionChoice&) -> Needs { return {.seconds = true}; },
       .partition = [](Graph graph, const PartitionChoice& choice) -> Partitioned {
         IdMap<ValueId, bool> saved(graph.values.size(), true);
         for (const auto& node : graph.nodes) {
           const bool slow = choice.measured.seconds.at(node.id) > 1;
           for (const auto id : node.outputs) saved[id] = slow;
         }
         return {split_at(std::move(graph), saved), {}};
       }});
  return Options().with_partition(registered);
}

std::vector<ValueId> saved_with(Measurements measured) {
  const auto options = save_slow();
  const auto graph = joint();
  const auto planned = compiler::plan_partition(graph, std::move(measured), options, {}, nullptr,
                                                next_node_id(graph),
                                                /*carry=*/false, compiler::pass_context(options));
  std::vector<ValueId> saved;
  for (const auto& slot : planned.partition.plan.saved) saved.push_back(slot.value);
  return saved;
}

TEST(PlanPartition, WhatTheRowAsksForIsMeasured) {
  const auto measured = compiler::measure_for(joint(), kNoTables, save_slow());
  ASSERT_EQ(measured.seconds.size(), joint().nodes.size());
  for (const auto seconds : measured.seconds) EXPECT_GT(seconds, 0);
  EXPECT_TRUE(measured.scratch.empty());
  EXPECT_EQ(compiler::measure_for(joint(), kNoTables, Options()), Measurements());
}

TEST(PlanPartition, MeasurementsArePassedIn) {
  const auto graph = joint();
  const auto x = graph.inputs[0].value, w = graph.inputs[1].value;
  const auto e = graph.nodes[0].outputs[0];
  Measurements measured;
  measured.seconds.assign(graph.nodes.size(), 0);
  EXPECT_EQ(saved_with(measured), (std::vector{x, w}));
  measured.seconds[0] = 2;
  EXPECT_EQ(saved_with(measured), (std::vector{w, e}));
}

}  // namespace plan_partition_test
}  // namespace antegrad::testing
