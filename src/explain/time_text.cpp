#include "explain/time_text.h"

#include <cmath>

#include <fmt/format.h>

namespace antegrad {
namespace {

constexpr TimeUnit kTimeUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};

}  // namespace

const TimeUnit& time_unit(double seconds) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (seconds >= unit.seconds) return unit;
  }
  return kTimeUnits[seconds == 0 ? 0 : std::size(kTimeUnits) - 1];
}

std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  const TimeUnit& unit = time_unit(std::abs(seconds));
  const double shown = seconds / unit.seconds;
  const double size = std::abs(shown);
  return fmt::format("{:.{}f} {}", shown, size < 10 ? 2 : size < 100 ? 1 : 0, unit.name);
}

}  // namespace antegrad
