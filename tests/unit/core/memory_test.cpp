#include <gtest/gtest.h>

#include "memory/byte_rules.h"
#include "memory/liveness.h"
#include "memory/peak.h"
#include "partition/default_partition.h"
#include "unit/core/graphs.h"

namespace antegrad::testing {
namespace {

TEST(StorageBytes, AreRoundedAsTheAllocatorOfTheDeviceDoes) {
  const Graph graph = graph_of(R"(symbols s0
inputs
  %0: f32[3] primal
  %1: f32[3] cuda:0 primal
  %2: f32[3, 0] primal
  %3: f32[3] meta primal
  %4: f32[17] primal
  %5: i8[s0, 4] primal
  %6: f32[3]{20} primal
nodes
outputs
)");
  const auto bytes = [&](ValueId id, const ByteRules& rules) {
    return storage_bytes(graph.value(id).meta, rules);
  };
  EXPECT_EQ(bytes(0, {}), 64);
  EXPECT_EQ(bytes(1, {}), 512);
  EXPECT_EQ(bytes(2, {}), 0);
  EXPECT_EQ(bytes(3, {}), 0);
  EXPECT_EQ(bytes(4, {}), 128);
  EXPECT_EQ(bytes(4, {{}, 1}), 68);
  EXPECT_EQ(bytes(5, {{40}, 0}), 192);
  EXPECT_EQ(bytes(6, {}), 192);  // strides reach over 41 elements
}

TEST(Liveness, ViewsProlongTheLifeOfTheirStorage) {
  const std::vector<StorageLife> lives = liveness(graph_of(R"(inputs
  %0: f32[16] primal
  %1: f32[16] primal
nodes
  %2: f32[16] = aten::neg.default(%0)
  %3: f32[4, 4] &2 = aten::view.default(%2, [4, 4])
  %4: f32[16] = aten::neg.default(%2)
  %5: f32[4, 4] = aten::neg.default(%3)
outputs
  %5 result
)"));
  ASSERT_EQ(lives.size(), 5u);
  EXPECT_EQ(lives[0].storage, 0);
  EXPECT_EQ(lives[0].first, -1);
  EXPECT_EQ(lives[0].last, 0);
  EXPECT_EQ(lives[1].last, -1);  // never read
  EXPECT_EQ(lives[2].storage, 2);
  EXPECT_EQ(lives[2].first, 0);
  EXPECT_EQ(lives[2].last, 3);  // through its view
  EXPECT_EQ(lives[3].last, 2);  // dead where it is made
  EXPECT_EQ(lives[4].last, 4);  // held by an output
  EXPECT_EQ(lives[4].bytes, 64);
}

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
