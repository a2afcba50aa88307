#include "explain/svg_timeline.h"

#include <gtest/gtest.h>

#include "graphs.h"
#include "partition/default_partition.h"

namespace antegrad::testing {
namespace {

TEST(SvgTimeline, ShowsPeaksInTheLegendAndWhereTheBackwardStarts) {
  const Timeline timeline = simulate(default_partition(graph_from_file("mlp.agraph")));
  const LiveSeries series = live_series("default", timeline);
  EXPECT_EQ(series.live.size(), timeline.points.size());
  EXPECT_EQ(series.backward_start, 7u);
  const std::string svg = timeline_svg({series}, "mlp");
  EXPECT_NE(svg.find("default, peak 6.7 KiB"), std::string::npos);
  EXPECT_NE(svg.find(">backward<"), std::string::npos);
  EXPECT_NE(svg.find("position in the step"), std::string::npos);
  EXPECT_NE(svg.find("class=\"ring"), std::string::npos);
}

TEST(SvgTimeline, SeriesOfDifferentLengthsAreStretched) {
  const LiveSeries eager{"eager", {1 << 20, 9 << 20, 1 << 20}, false, {}};
  const LiveSeries compiled{"compiled", {1 << 20, 5 << 20}, true, {}};
  const std::string svg = timeline_svg({eager, compiled}, "two");
  EXPECT_NE(svg.find("course of the step (%)"), std::string::npos);
  EXPECT_NE(svg.find("eager, peak 9.0 MiB"), std::string::npos);
  EXPECT_NE(svg.find("compiled, peak 5.0 MiB"), std::string::npos);
  EXPECT_NE(svg.find("memory alive (MiB)"), std::string::npos);
}

TEST(SvgTimeline, NothingToShowIsNoError) {
  EXPECT_NO_THROW(timeline_svg({}, ""));
  EXPECT_NO_THROW(timeline_svg({LiveSeries{"empty", {}, false, {}}}, ""));
}

}  // namespace
}  // namespace antegrad::testing
