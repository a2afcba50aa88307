#include "explain/axis.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "explain/time_text.h"
#include "graph/byte_text.h"

namespace antegrad {
namespace {

double round_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::vector<double> Axis::ticks() const {
  std::vector<double> result;
  const auto count = static_cast<int>(std::lround((to - from) / step));
  for (int i = 0; i <= count; ++i) result.push_back(from + i * step);
  return result;
}

std::string Axis::label(double value) const {
  const double shown = value / scale;
  const double shown_step = step / scale;
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(shown_step) - 1e-9)), 0, 9);
  std::string text = fmt::format("{:.{}f}", shown, digits);
  if (std::stod(text) == 0) return "0";  // avoids "-0"
  if (digits == 9 || std::abs(shown) >= 1e7) text = fmt::format("{:g}", shown);
  return text;
}

Axis make_axis(double low, double high, AxisUnit unit, int max_ticks) {
  Axis axis;
  if (unit == AxisUnit::bytes) {
    const ByteUnit& chosen = byte_unit(std::max(std::abs(low), std::abs(high)));
    axis.scale = chosen.bytes;
    axis.unit = chosen.name;
  } else if (unit == AxisUnit::seconds) {
    const TimeUnit& chosen = time_unit(std::max(std::abs(low), std::abs(high)));
    axis.scale = chosen.seconds;
    axis.unit = chosen.name;
  } else if (unit == AxisUnit::percent) {
    axis.scale = 0.01;
    axis.unit = "%";
  }
  low /= axis.scale;
  high /= axis.scale;
  if (!(high > low)) {
    // A single value: widen the range.
    const double room = low == 0 ? 1 : std::abs(low) * 0.5;
    high = low + room;
    if (low != 0) low -= room;
  }
  const double step = round_step((high - low) / std::max(1, max_ticks - 1));
  axis.from = std::floor(low / step + 1e-9) * step * axis.scale;
  axis.to = std::ceil(high / step - 1e-9) * step * axis.scale;
  axis.step = step * axis.scale;
  return axis;
}

}  // namespace antegrad
