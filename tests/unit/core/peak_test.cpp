#include "memory/peak.h"

#include <gtest/gtest.h>

#include "graphs.h"
#include "partition/default_partition.h"

namespace antegrad::testing {
namespace {

std::vector<int64_t> live_bytes(const Timeline& timeline) {
  std::vector<int64_t> live;
  for (const Timeline::Point& point : timeline.points) live.push_back(point.live);
  return live;
}

TEST(Peak, CountsWhatIsAliveAtEachNode) {
  // One tensor is 64 bytes. Inputs of the call count nothing.
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[16] primal argument 0 grad
  %9: f32[16] tangent 0
nodes
  %1: f32[16] = aten::cos.default(%0)  # 0
  %2: f32[16] = aten::neg.default(%1)  # 1
  %3: f32[16] = aten::neg.default(%2)  # 2
backward
  %4: f32[16] = aten::neg.default(%9)  # 3
  %5: f32[16] = aten::mul.Tensor(%4, %1)  # 4
outputs
  %3 result
  %5 gradient 0
)")));
  // Forward: %1 | %1 %2 | %1 %2 %3. Backward: %1 (saved) %3 (result) %9 (tangent), then %4 and %5.
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{64, 128, 192, 256, 320}));
  EXPECT_EQ(timeline.peak_bytes, 320);
  EXPECT_EQ(timeline.peak_position, 4);
  EXPECT_EQ(timeline.saved_bytes, 64);
  EXPECT_EQ(timeline.points[0].pass, Phase::forward);
  EXPECT_EQ(timeline.points[4].pass, Phase::backward);
  EXPECT_EQ(timeline.points[4].node_id, 4);
  EXPECT_EQ(timeline.points[4].op.name(), "aten::mul.Tensor");
}

TEST(Peak, ViewsAndInPlaceNodesAllocateNothing) {
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[16] primal
nodes
  %1: f32[16] = aten::cos.default(%0)
  %2: f32[16] &1 = aten::neg_.default(%1)
  %3: f32[4, 4] &1 = aten::view.default(%2, [4, 4])
  %4: f32[4, 4] = aten::neg.default(%3)
outputs
  %4 result
)")));
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{64, 64, 64, 128}));
}

TEST(Peak, SavedPrimalsAndResultsCostNothing) {
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[16] primal argument 0 grad
  %9: f32[16] tangent 0
nodes
  %1: f32[16] = aten::exp.default(%0)
backward
  %2: f32[16] = aten::mul.Tensor(%9, %1)
  %3: f32[16] = aten::mul.Tensor(%2, %0)
outputs
  %1 result
  %3 gradient 0
)")));
  EXPECT_EQ(timeline.saved_bytes, 0);
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{64, 192, 256}));
}

TEST(Peak, WhatIsWrittenBackDiesWithTheForward) {
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[16] primal argument 0 grad mutates_data
  %9: f32[16] tangent 0
nodes
  %1: f32[16] = aten::exp.default(%0)
  %2: f32[16] = aten::neg.default(%0)
backward
  %3: f32[16] = aten::neg.default(%9)
outputs
  %2 result
  %1 mutated 0
  %3 gradient 0
)")));
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{64, 128, 192}));
}

TEST(Peak, OutputsThatNobodyUsesAreFreedRightAfterTheirNode) {
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[16] primal
nodes
  %1: f32[16], %2: f32[16] = aten::frexp.Tensor(%0)
  %3: f32[16] = aten::neg.default(%1)
outputs
  %3 result
)")));
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{128, 128}));
  EXPECT_EQ(timeline.peak_position, 0);
}

TEST(Peak, SymbolicSizesTakeTheValuesThatAreGiven) {
  const Partition partition = default_partition(graph_from_file("views.agraph"));
  const int64_t small = simulate(partition, {{8}, 0}).peak_bytes;
  const int64_t large = simulate(partition, {{800}, 0}).peak_bytes;
  EXPECT_EQ(large, 100 * small);
}

TEST(Peak, AnEmptyGraphNeedsNothing) {
  const Timeline timeline = simulate(Partition());
  EXPECT_EQ(timeline.peak_bytes, 0);
  EXPECT_EQ(timeline.peak_position, -1);
  EXPECT_TRUE(timeline.points.empty());
}

}  // namespace
}  // namespace antegrad::testing
