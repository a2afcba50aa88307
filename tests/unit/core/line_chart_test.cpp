#include "explain/line_chart.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "explain/axis.h"

namespace antegrad::testing {
namespace line_chart_test {

Series line(std::string name, std::vector<double> x, std::vector<double> y) {
  Series series;
  series.name = std::move(name);
  series.x = std::move(x);
  series.y = std::move(y);
  return series;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++found;
  return found;
}

/// Expects that every element is closed and that no number is nan or inf.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (size_t i = svg.find('<'); i != std::string::npos; i = svg.find('<', i + 1)) {
    const std::string tag = svg.substr(i + 1, svg.find('>', i) - i - 1);
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("\"inf"), std::string::npos);
}

TEST(Axis, TicksStandAtRoundNumbersAndCoverTheData) {
  for (const auto& [low, high] : {std::pair(0.0, 97.0),
                                  {0.0, 1e-6},
                                  {-3.0, 12.0},
                                  {1e9, 1.1e9},
                                  {5.0, 5.0},
                                  {0.0, 0.0},
                                  {-7.0, -7.0}}) {
    const Axis axis = make_axis(low, high, AxisUnit::plain, 6);
    EXPECT_LE(axis.from, low);
    EXPECT_GE(axis.to, high);
    EXPECT_GE(axis.ticks().size(), 2u);
    EXPECT_LE(axis.ticks().size(), 8u);
    const double leading = axis.step / std::pow(10, std::floor(std::log10(axis.step * (1 + 1e-9))));
    EXPECT_TRUE(std::abs(leading - 1) < 1e-6 || std::abs(leading - 2) < 1e-6 ||
                std::abs(leading - 5) < 1e-6)
        << axis.step;
  }
}

TEST(Axis, BytesGetTheUnitThatSuitsThem) {
  const Axis axis = make_axis(0, 300.0 * 1024 * 1024, AxisUnit::bytes, 7);
  EXPECT_EQ(axis.unit, "MiB");
  EXPECT_EQ(axis.label(50.0 * 1024 * 1024), "50");
  EXPECT_EQ(make_axis(0, 900, AxisUnit::bytes, 7).unit, "B");
  EXPECT_EQ(make_axis(0, 80e9, AxisUnit::bytes, 7).unit, "GiB");
}

TEST(LineChart, ShowsEverySeriesWithItsName) {
  ChartOptions options;
  options.title = "Loss";
  options.x_label = "step";
  options.y_label = "cross entropy";
  const std::string svg = line_chart(
      {line("eager", {0, 1, 2}, {3, 2, 1}), line("compiled", {0, 1, 2}, {3, 2, 1.5})}, options);
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "<path"), 2u);
  for (const char* word : {">Loss<", ">step<", ">cross entropy<", ">eager<", ">compiled<"}) {
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  }
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(LineChart, GuidesBandsAndTitlesAreDrawn) {
  ChartOptions options;
  options.guides = {{true, 1, "here"}, {true, 1.01, "close by"}, {false, 2, "limit <"}};
  options.bands = {{0.5, 0.8}};
  options.bands_label = "shaded";
  Series frontier = line("frontier", {0, 1, 2}, {3, 2, 1});
  frontier.dots = true;
  frontier.titles = {"first & best", "second", "third"};
  Series mark = line("chosen", {1}, {2});
  mark.dots = true;
  mark.titles = {"the one"};
  const std::string svg = line_chart({frontier, mark}, options);
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"guide\""), 3u);
  EXPECT_EQ(count(svg, "class=\"band\""), 2u);  // and in the legend
  EXPECT_EQ(count(svg, "<title>first &amp; best</title>"),
            2u);  // the dot, and its larger hover target
  EXPECT_EQ(count(svg, "<title>the one</title>"), 1u);
  EXPECT_EQ(count(svg, "r=\"5\" class=\"d1\""), 2u);  // in the chart and in the legend
  // Labels that would overlap are placed below one another.
  const auto y_of = [&](const std::string& label) {
    const std::string before = svg.substr(0, svg.find(">" + label + "<"));
    return std::stod(before.substr(before.rfind(" y=\"") + 4));
  };
  EXPECT_GE(y_of("close by") - y_of("here"), 12);
}

TEST(LineChart, TimesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(make_axis(0, 0.5, AxisUnit::seconds, 6).unit, "ms");
  EXPECT_EQ(make_axis(0, 3e-6, AxisUnit::seconds, 6).unit, "us");
  EXPECT_EQ(make_axis(0, 0, AxisUnit::seconds, 6).unit, "s");
}

TEST(LineChart, EscapesWhatUsersWrite) {
  ChartOptions options;
  options.title = "a < b & \"c\"";
  const std::string svg = line_chart({line("<script>", {0}, {1})}, options);
  expect_well_formed(svg);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
}

TEST(LineChart, OddDataDrawNonetheless) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  expect_well_formed(line_chart({}, {}));
  expect_well_formed(line_chart({line("empty", {}, {})}, {}));
  expect_well_formed(line_chart({line("one", {3}, {7})}, {}));
  expect_well_formed(line_chart({line("flat", {0, 1}, {0, 0})}, {}));
  expect_well_formed(line_chart({line("uneven", {0, 1, 2}, {5})}, {}));
  expect_well_formed(line_chart({line("negative", {-1, 1}, {-5, -9})}, {}));
  expect_well_formed(line_chart({line("undefined", {0, 1, 2}, {nan, infinity, -infinity})}, {}));
}

TEST(LineChart, APointThatIsNotFiniteBreaksTheLine) {
  const std::string svg = line_chart(
      {line("gap", {0, 1, 2, 3, 4}, {1, 2, std::numeric_limits<double>::quiet_NaN(), 2, 1})}, {});
  const std::string path = svg.substr(svg.find(" d=\"") + 4);
  EXPECT_EQ(count(path.substr(0, path.find('"')), "M"), 2u);
}

TEST(LineChart, LongSeriesKeepTheirHighestPointAndStaySmall) {
  Series series;
  series.name = "long";
  for (int i = 0; i < 200000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 77777 ? 100 : i % 10);
  }
  const std::string svg = line_chart({series}, {});
  EXPECT_LT(svg.size(), 120000u);
  // Only the spike reaches the line of the highest tick.
  const std::string grid = svg.substr(svg.rfind("class=\"grid\""));
  const std::string path = svg.substr(svg.find(" d=\"") + 4);
  const std::string top = svg.substr(svg.rfind("y2=\"", svg.size() - grid.size()) + 4);
  EXPECT_EQ(count(path.substr(0, path.find('"')), " " + top.substr(0, top.find('"'))), 1u);
}

}  // namespace line_chart_test
}  // namespace antegrad::testing
