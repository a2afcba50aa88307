#include "cost/machine.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "one_node.h"

namespace antegrad::testing {
namespace machine_test {

TEST(Machine, ANodeTakesTheLongerOfComputingAndMoving) {
  const Machine machine{100, 10, 0.5};
  EXPECT_DOUBLE_EQ(seconds({1000, 20}, machine), 10.5);
  EXPECT_DOUBLE_EQ(seconds({1000, 200}, machine), 20.5);
  EXPECT_DOUBLE_EQ(seconds({0, 10}, machine), 1.5);
  EXPECT_DOUBLE_EQ(seconds({0, 0}, machine), 0);
  EXPECT_NEAR(seconds({0, 4008, 4000}, kCpu), 4000 / kCpu.host_bytes_per_second,
              2 * kCpu.seconds_per_node);
}

TEST(Machine, IsFoundByName) {
  EXPECT_EQ(machine_named("gpu").bytes_per_second, 3e12);
  EXPECT_LT(machine_named("cpu").flops_per_second, machine_named("gpu").flops_per_second);
  expect_error<OptionError>([] { machine_named("abacus"); }, "abacus");
}

TEST(NodeSeconds, AreThoseMeasuredOrElseOfARoofline) {
  Graph graph = graph_of(R"(inputs
  %0: f32[1024] primal argument 0
nodes
  %1: f32[1024] = aten::exp.default(%0)
  %2: f32[1024] = aten::sin.default(%1)
outputs
  %2 result
)");
  EXPECT_EQ(machine_of(graph), "cpu");
  const double roofline = seconds({0, 8192}, kCpu);
  EXPECT_EQ(node_seconds(graph), (std::vector{roofline, roofline}));
  EXPECT_EQ(node_seconds(graph, {}, "gpu")[0], seconds({0, 8192}, kGpu));
  number_nodes(graph);
  Measurements measured;
  measured.seconds = {-1, 0.5};
  EXPECT_EQ(node_seconds(graph, {}, "", measured), (std::vector{roofline, 0.5}));
  measured.seconds = {0.25};  // fewer nodes than the graph has
  EXPECT_EQ(node_seconds(graph, {}, "", measured), (std::vector{0.25, roofline}));
}

}  // namespace machine_test
}  // namespace antegrad::testing
