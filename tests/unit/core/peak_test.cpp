#include "memory/peak.h"

#include <gtest/gtest.h>

#include "partition/default_partition.h"
#include "partition/split.h"
#include "partitions.h"

namespace antegrad::testing {
namespace peak_test {

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

TEST(Peak, TensorsOfMoreThan31Bits) {
  const Timeline timeline = simulate(default_partition(graph_of(R"(inputs
  %0: f32[131072, 65536] primal
nodes
  %1: f32[131072, 65536] = aten::cos.default(%0)
  %2: f32[131072, 65536] = aten::neg.default(%1)
  %3: f32[131072, 65536] = aten::mul.Tensor(%1, %2)
outputs
  %3 result
)")));
  constexpr int64_t kTensor = int64_t{1} << 35;
  EXPECT_EQ(live_bytes(timeline), (std::vector<int64_t>{kTensor, 2 * kTensor, 3 * kTensor}));
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

std::string two_draws(const std::string& generators) {
  return "generators " + generators + R"(
inputs
  %0: f32[2048] primal argument 0 grad
  %1: token generator 0
  %2: token generator 1
  %9: f32[2048] tangent 0
nodes
  %3: f32[2048], %4: token = aten::bernoulli.p(%0, p=0.5, generator=none; %1)  # 0
  %5: f32[2048] = aten::mul.Tensor(%0, %3)  # 1
  %6: f32[2048], %7: token = aten::bernoulli.p(%5, p=0.5, generator=generator(1); %2)  # 2
  %8: f32[2048] = aten::mul.Tensor(%5, %6)  # 3
backward
  %10: f32[2048] = aten::mul.Tensor(%9, %6)  # 4
  %11: f32[2048] = aten::mul.Tensor(%10, %3)  # 5
outputs
  %8 result grad
  %4 generator 0
  %7 generator 1
  %11 gradient 0
)";
}

TEST(Peak, CountsStatesOfGeneratorsThatAreSaved) {
  const auto live = [](const std::string& generators) {
    const Graph joint = graph_of(two_draws(generators));
    const Timeline timeline = simulate(split_at(joint, saving(joint, {0, 1, 2})));
    auto bytes = live_bytes(timeline);
    bytes.push_back(timeline.saved_bytes);
    return bytes;
  };
  // A tensor, and a state on the CPU. The backward recomputes the whole forward, starting with
  // result, tangent and states live; each state dies with its draw.
  constexpr int64_t t = 8192, s = kGeneratorStateBytes;
  EXPECT_EQ(live("cpu, user:1:cpu"),
            (std::vector<int64_t>{s + t, s + 2 * t, 2 * s + 2 * t, 2 * s + 3 * t, 2 * s + 3 * t,
                                  s + 4 * t, s + 5 * t, 5 * t, 5 * t, 2 * s}));
  EXPECT_EQ(live("cuda:0, user:1:cuda:0"),
            (std::vector<int64_t>{t, 2 * t, 2 * t, 3 * t, 3 * t, 4 * t, 5 * t, 5 * t, 5 * t, 0}));
  EXPECT_EQ(live("cuda:0, user:1:cpu"),
            (std::vector<int64_t>{t, 2 * t, s + 2 * t, s + 3 * t, s + 3 * t, s + 4 * t, s + 5 * t,
                                  5 * t, 5 * t, s}));
}

}  // namespace peak_test
}  // namespace antegrad::testing
