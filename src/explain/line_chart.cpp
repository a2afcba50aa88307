#include "explain/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "explain/axis.h"

namespace antegrad {
namespace {

// Light and dark variants of one hue each, also distinguishable with colour blindness.
struct Colour {
  const char* light;
  const char* dark;
};
constexpr Colour kColours[] = {{"#1f6fd0", "#6aa9f4"}, {"#d9600a", "#f59b52"},
                               {"#1a8a57", "#4fc78e"}, {"#a83fa0", "#d98ad3"},
                               {"#8a6d00", "#d8b640"}, {"#c22f3f", "#f0808c"}};

// The widths of letters are not known here; this is a good estimate for 12 px sans-serif.
constexpr double kLetter = 6.6;
constexpr double kLegendRow = 20;
constexpr double kLabelRow = 15;
constexpr int kWidth = 860;
constexpr int kHeight = 420;

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c; break;
    }
  }
  return result;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void default_to(double a, double b) {
    if (low > high) *this = {a, b};
  }
};

bool is_drawn(const Series& series, size_t i) {
  return std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
}

class Chart {
 public:
  Chart(const std::vector<Series>& series, const ChartOptions& options)
      : series_(series), options_(options) {}

  std::string draw() {
    lay_out();
    open();
    bands();
    grid();
    for (const Guide& guide : options_.guides) draw_guide(guide);
    // Dashed lines are drawn on top, so that they do not hide the lines below.
    for (const bool dashed : {false, true}) {
      for (size_t i = 0; i < series_.size(); ++i) {
        if (series_[i].dashed == dashed) line(i);
      }
    }
    for (const Guide& guide : options_.guides) label_guide(guide);
    for (size_t i = 0; i < series_.size(); ++i) points(i);
    legend();
    return out_ + "</svg>\n";
  }

 private:
  static size_t colour(size_t series) { return series % std::size(kColours); }
  size_t length(const Series& series) const { return std::min(series.x.size(), series.y.size()); }

  void lay_out() {
    Range x;
    Range y;
    for (const Series& series : series_) {
      for (size_t i = 0; i < length(series); ++i) {
        if (!is_drawn(series, i)) continue;
        x.include(series.x[i]);
        y.include(series.y[i]);
      }
    }
    x.default_to(0, 1);
    y.default_to(0, 1);
    for (const Guide& guide : options_.guides) (guide.vertical ? x : y).include(guide.at);
    if (options_.y_from_zero) y.include(0);
    x_ = make_axis(x.low, x.high, options_.x_unit, std::max(2, kWidth / 90));
    y_ = make_axis(y.low, y.high, options_.y_unit, std::max(2, kHeight / 60));
    // The line may use the whole width: the x axis ends at the last data point.
    if (x.high > x.low) {
      x_.from = x.low - options_.x_margin * (x.high - x.low);
      x_.to = x.high + options_.x_margin * (x.high - x.low);
    }

    lay_out_legend();
    size_t widest = 0;
    for (const double tick : y_.ticks()) widest = std::max(widest, y_.label(tick).size());
    x_.pixel_from = 34 + kLetter * static_cast<double>(widest);
    x_.pixel_to = kWidth - 18;
    y_.pixel_from = kHeight - 46;
    y_.pixel_to = legend_bottom_ + 14;
  }

  void lay_out_legend() {
    double x = 16;
    double y = options_.title.empty() ? 22 : 46;
    const double start = y;
    std::vector<std::string_view> names;
    for (const Series& series : series_) names.push_back(series.name);
    if (!options_.bands.empty()) names.push_back(options_.bands_label);
    for (const std::string_view name : names) {
      const double width = 34 + kLetter * static_cast<double>(name.size());
      if (x > 16 && x + width > kWidth - 16) {
        x = 16;
        y += kLegendRow;
      }
      legend_.push_back({x, y});
      x += width + 14;
    }
    legend_bottom_ = names.empty() ? start - kLegendRow : y;
  }

  void open() {
    out_ += fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n<style>\n",
        kWidth, kHeight, xml_escaped(options_.title));
    out_ +=
        "text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; "
        "fill: #33383f; }\n"
        ".title { font-size: 15px; font-weight: 600; fill: #14171a; }\n"
        ".page { fill: #ffffff; }\n.grid { stroke: #e3e6ea; }\n.axis { stroke: #8b939c; }\n"
        ".guide { stroke: #6e7781; stroke-dasharray: 2 4; stroke-width: 1.4; }\n"
        ".band { fill: #d9600a; fill-opacity: 0.10; }\n"
        ".label { paint-order: stroke; stroke: #ffffff; stroke-width: 4; stroke-linejoin: round; "
        "}\n"
        ".hit { fill-opacity: 0; }\n"
        ".line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }\n"
        ".dashed { stroke-dasharray: 6 4; }\n.ring { fill: none; stroke-width: 2; }\n";
    for (size_t i = 0; i < std::size(kColours); ++i) {
      out_ +=
          fmt::format(".s{0} {{ stroke: {1}; }} .d{0} {{ fill: {1}; }}\n", i, kColours[i].light);
    }
    out_ +=
        "@media (prefers-color-scheme: dark) {\ntext { fill: #c9d1d9; }\n.title { fill: #f0f3f6; "
        "}\n"
        ".page { fill: #14181d; }\n.grid { stroke: #2b3138; }\n.axis, .guide { stroke: #7d8590; "
        "}\n.band { fill: #f59b52; fill-opacity: 0.13; }\n.label { stroke: #14181d; }\n";
    for (size_t i = 0; i < std::size(kColours); ++i) {
      out_ += fmt::format(".s{0} {{ stroke: {1}; }} .d{0} {{ fill: {1}; }}\n", i, kColours[i].dark);
    }
    out_ += "}\n</style>\n";
    out_ += fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n", kWidth,
                        kHeight);
    if (!options_.title.empty()) text(16, 26, options_.title, "start", "title");
  }

  void text(double x, double y, std::string_view content, std::string_view anchor,
            std::string_view style = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                        anchor, style.empty() ? "" : fmt::format(" class=\"{}\"", style),
                        xml_escaped(content));
  }

  void stroke(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
        x2, y2, style);
  }

  static std::string with_unit(const std::string& label, const std::string& unit) {
    if (unit.empty()) return label;
    return label.empty() ? unit : fmt::format("{} ({})", label, unit);
  }

  void grid() {
    for (const double tick : y_.ticks()) {
      const double y = y_.pixel(tick);
      stroke(x_.pixel_from, y, x_.pixel_to, y, "grid");
      text(x_.pixel_from - 6, y + 4, y_.label(tick), "end");
    }
    const double bottom = y_.pixel_from;
    const double first = std::ceil(x_.from / x_.step - 1e-9) * x_.step;
    for (double tick = first; tick <= x_.to + x_.step * 1e-6; tick += x_.step) {
      stroke(x_.pixel(tick), bottom, x_.pixel(tick), bottom + 4, "axis");
      text(x_.pixel(tick), bottom + 18, x_.label(tick), "middle");
    }
    stroke(x_.pixel_from, bottom, x_.pixel_to, bottom, "axis");
    text((x_.pixel_from + x_.pixel_to) / 2, bottom + 36, with_unit(options_.x_label, x_.unit),
         "middle");
    const std::string label = with_unit(options_.y_label, y_.unit);
    const double middle = (y_.pixel_from + y_.pixel_to) / 2;
    out_ += fmt::format(
        "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}"
        "</text>\n",
        middle, xml_escaped(label));
  }

  void bands() {
    for (const Band& band : options_.bands) {
      const double from = x_.pixel(band.from);
      rectangle(from, y_.pixel_to, std::max(1.0, x_.pixel(band.to) - from),
                y_.pixel_from - y_.pixel_to);
    }
  }

  void rectangle(double x, double y, double width, double height) {
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"band\"/>\n", x,
        y, width, height);
  }

  void draw_guide(const Guide& guide) {
    if (guide.vertical) {
      stroke(x_.pixel(guide.at), y_.pixel_from, x_.pixel(guide.at), y_.pixel_to, "guide");
    } else {
      stroke(x_.pixel_from, y_.pixel(guide.at), x_.pixel_to, y_.pixel(guide.at), "guide");
    }
  }

  /// Labels a guide next to its line, away from the nearer edge and below labels that it would
  /// cover.
  void label_guide(const Guide& guide) {
    if (!guide.vertical) {
      label(x_.pixel_to - 4, y_.pixel(guide.at) - 5, guide.label, "end");
      return;
    }
    const double x = x_.pixel(guide.at);
    const bool left = x > (x_.pixel_from + x_.pixel_to) / 2;
    label(left ? x - 6 : x + 6, y_.pixel_to + 10, guide.label, left ? "end" : "start");
  }

  /// A text over the lines, moved down until it covers no other text.
  void label(double x, double y, const std::string& content, std::string_view anchor) {
    const double width = kLetter * static_cast<double>(content.size());
    const double from = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
    const auto covers = [&](const Box& box) {
      return from < box.x + box.width && box.x < from + width && std::abs(y - box.y) < kLabelRow;
    };
    for (size_t tries = 0; tries < labels_.size(); ++tries) {
      const auto covered = std::ranges::find_if(labels_, covers);
      if (covered == labels_.end()) break;
      if (covered->content == content) return;
      y = covered->y + kLabelRow;
    }
    labels_.push_back({from, y, width, content});
    text(x, y, content, anchor, "label");
  }

  /// The path of a series. Long series keep the first, lowest, highest and last point of each
  /// pixel.
  void line(size_t index) {
    const Series& series = series_[index];
    std::string path;
    bool pen_down = false;
    double last_y = 0;
    const auto go = [&](double x, double y) {
      if (pen_down && series.steps) path += fmt::format("L{:.1f} {:.1f}", x, last_y);
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x, y);
      pen_down = true;
      last_y = y;
    };
    size_t i = 0;
    const size_t count = length(series);
    const bool dense = count > 4 * static_cast<size_t>(kWidth);
    while (i < count) {
      if (!is_drawn(series, i)) {
        pen_down = false;
        ++i;
        continue;
      }
      const double x = x_.pixel(series.x[i]);
      double y = y_.pixel(series.y[i]);
      double low = y;
      double high = y;
      go(x, y);
      for (++i; dense && i < count && is_drawn(series, i); ++i) {
        if (std::abs(x_.pixel(series.x[i]) - x) >= 1) break;
        y = y_.pixel(series.y[i]);
        low = std::min(low, y);
        high = std::max(high, y);
      }
      if (high > low) {
        go(x, high);
        go(x, low);
        go(x, y);
      }
    }
    if (path.empty()) return;
    out_ += fmt::format("<path class=\"line s{}{}\" d=\"{}\"/>\n", colour(index),
                        series.dashed ? " dashed" : "", path);
  }

  void points(size_t index) {
    const Series& series = series_[index];
    const auto circle = [&](size_t i, double radius, const std::string& style) {
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" class=\"{}\"",
                          x_.pixel(series.x[i]), y_.pixel(series.y[i]), radius, style);
      out_ += i < series.titles.size()
                  ? fmt::format("><title>{}</title></circle>\n", xml_escaped(series.titles[i]))
                  : "/>\n";
    };
    const bool alone = length(series) == 1;
    for (size_t i = 0; i < length(series); ++i) {
      if (!is_drawn(series, i)) continue;
      if (series.dots) circle(i, alone ? 5 : 2.5, fmt::format("d{}", colour(index)));
      // A dot is too small to hover over.
      if (!alone && i < series.titles.size()) circle(i, 5, "hit");
    }
    if (!series.mark || *series.mark >= length(series) || !is_drawn(series, *series.mark)) return;
    circle(*series.mark, 5, fmt::format("ring s{}", colour(index)));
    if (series.mark_label.empty()) return;
    const double x = x_.pixel(series.x[*series.mark]);
    const bool left = x > (x_.pixel_from + x_.pixel_to) / 2;
    label(left ? x - 9 : x + 9, y_.pixel(series.y[*series.mark]) - 7, series.mark_label,
          left ? "end" : "start");
  }

  void legend() {
    for (size_t i = 0; i < series_.size(); ++i) {
      const auto [x, y] = legend_[i];
      if (series_[i].dots && length(series_[i]) == 1) {
        out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" class=\"d{}\"/>\n", x + 15,
                            y - 4, colour(i));
      } else {
        stroke(x, y - 4, x + 22, y - 4,
               fmt::format("line s{}{}", colour(i), series_[i].dashed ? " dashed" : ""));
      }
      text(x + 28, y, series_[i].name, "start");
    }
    if (options_.bands.empty()) return;
    const auto [x, y] = legend_.back();
    rectangle(x, y - 11, 22, 14);
    text(x + 28, y, options_.bands_label, "start");
  }

  struct Box {
    double x;
    double y;
    double width;
    std::string content;
  };

  const std::vector<Series>& series_;
  const ChartOptions& options_;
  Axis x_;
  Axis y_;
  std::vector<std::pair<double, double>> legend_;
  double legend_bottom_ = 0;
  std::vector<Box> labels_;
  std::string out_;
};

}  // namespace

std::string line_chart(const std::vector<Series>& series, const ChartOptions& options) {
  return Chart(series, options).draw();
}

}  // namespace antegrad
