#include "explain/svg_timeline.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "graph/generated_node.h"
#include "partition/default_partition.h"
#include "partition/split.h"
#include "partitions.h"

namespace antegrad::testing {
namespace svg_timeline_test {

TEST(SvgTimeline, ShowsPeaksInTheLegendAndWhereTheBackwardStarts) {
  const Timeline timeline = simulate(default_partition(graph_from_file("mlp.agraph")));
  const LiveSeries series = live_series("default", timeline);
  EXPECT_EQ(series.live.size(), timeline.points.size());
  EXPECT_EQ(series.backward_start, 7u);
  const std::string svg = timeline_svg({series}, {"mlp"});
  EXPECT_NE(svg.find("default, peak 6.7 KiB"), std::string::npos);
  EXPECT_NE(svg.find(">backward<"), std::string::npos);
  EXPECT_NE(svg.find("position in the step"), std::string::npos);
  EXPECT_NE(svg.find("class=\"ring"), std::string::npos);
}

TEST(SvgTimeline, SeriesOfDifferentLengthsAreStretched) {
  const LiveSeries eager{"eager", {1 << 20, 9 << 20, 1 << 20}, false, {}};
  const LiveSeries compiled{"compiled", {1 << 20, 5 << 20}, true, {}};
  const std::string svg = timeline_svg({eager, compiled}, {"two"});
  EXPECT_NE(svg.find("course of the step (%)"), std::string::npos);
  EXPECT_NE(svg.find("eager, peak 9.0 MiB"), std::string::npos);
  EXPECT_NE(svg.find("compiled, peak 5.0 MiB"), std::string::npos);
  EXPECT_NE(svg.find("memory alive (MiB)"), std::string::npos);
}

TEST(SvgTimeline, WhatRunsAgainIsShadedViewsAside) {
  const Graph graph = graph_of(R"(inputs
  %0: f32[4096] primal argument 0 grad
  %9: f32[4096] tangent 0
nodes
  %1: f32[4096] = aten::exp.default(%0)                              # 0
  %2: f32[4096] = aten::sin.default(%1)                              # 1
  %3: f32[64, 64] &2 = aten::view.default(%2, [64, 64])              # 2
  %4: f32[64, 64] = aten::cos.default(%3)                            # 3
  %5: f32[4096] &4 = aten::view.default(%4, [4096])                  # 4
backward
  %6: f32[4096] = aten::mul.Tensor(%9, %2)                           # 5
outputs
  %4 result
  %6 gradient 0
)");
  const LiveSeries series =
      live_series("planned", simulate(split_at(graph, saving(graph, {0, 9}))));
  ASSERT_EQ(series.again.size(), 1u);
  const auto [from, to] = series.again.front();
  EXPECT_EQ(to - from, 2u);
  EXPECT_EQ(series.ops[from], "aten::exp.default");
  EXPECT_GE(from, series.backward_start.value());
  const std::string svg = timeline_svg({series}, TimelineOptions{"t", 40000, false});
  EXPECT_NE(svg.find(">recomputed<"), std::string::npos);
  EXPECT_NE(svg.find("class=\"band\""), std::string::npos);
  EXPECT_NE(svg.find(">budget 39.06 KiB<"), std::string::npos);
  const auto peak = std::max_element(series.live.begin(), series.live.end()) - series.live.begin();
  EXPECT_EQ(series.ops[peak], "aten::sin.default");
  EXPECT_NE(svg.find(">sin<"), std::string::npos);
  EXPECT_NE(svg.find("<title>0: exp, "), std::string::npos);
}

TEST(SvgTimeline, KernelsOfTheBackwardAreShadedIfTheirLastNodeIsRecomputed) {
  Timeline timeline;
  for (const int32_t id : {3, 5, 7}) {
    timeline.points.push_back({id, 100, generated_op(), Phase::backward});
  }
  EXPECT_TRUE(live_series("kernels", timeline).again.empty());
  using Ranges = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(live_series("kernels", timeline, {3, 5, 6}).again, (Ranges{{0, 2}}));
  timeline.points[1].pass = timeline.points[0].pass = Phase::forward;
  EXPECT_TRUE(live_series("kernels", timeline, {3, 5, 6}).again.empty());
}

TEST(SvgTimeline, PartitionsOfOneGraphShareAnAxisOfPositions) {
  const LiveSeries eager{"eager", {1 << 20, 9 << 20, 1 << 20}, true, {}};
  const LiveSeries planned{"planned", {1 << 20, 5 << 20, 1 << 20, 5 << 20}, false, {}};
  const std::string svg = timeline_svg({eager, planned}, TimelineOptions{"two", {}, false});
  EXPECT_NE(svg.find("position in the step"), std::string::npos);
  // Dashed lines are drawn on top.
  EXPECT_LT(svg.find("line s1\""), svg.find("line s0 dashed"));
}

TEST(SvgTimeline, NothingToShowIsNoError) {
  EXPECT_NO_THROW(timeline_svg({}, {}));
  EXPECT_NO_THROW(timeline_svg({LiveSeries{"empty", {}, false, {}}}, {}));
}

}  // namespace svg_timeline_test
}  // namespace antegrad::testing
