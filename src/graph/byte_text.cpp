#include "graph/byte_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace antegrad {
namespace {

constexpr std::array<std::string_view, 5> kUnitWords = {"b", "kib", "mib", "gib", "tib"};

constexpr ByteUnit kByteUnits[] = {
    {1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024.0, "KiB"}, {1.0, "B"}};

}  // namespace

std::optional<int64_t> bytes_from_text(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit(stop, end);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.empty()) unit = "b";
  const auto it = std::find(kUnitWords.begin(), kUnitWords.end(), unit);
  if (it == kUnitWords.end()) return std::nullopt;
  const double bytes =
      std::round(std::ldexp(number, static_cast<int>(10 * (it - kUnitWords.begin()))));
  if (!(bytes < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

const ByteUnit& byte_unit(double bytes) {
  for (const ByteUnit& unit : kByteUnits) {
    if (bytes >= 4 * unit.bytes) return unit;
  }
  return kByteUnits[std::size(kByteUnits) - 1];
}

std::string bytes_text(double bytes) {
  const ByteUnit& unit = byte_unit(std::abs(bytes));
  const double shown = bytes / unit.bytes;
  return fmt::format("{:.{}f} {}", shown, unit.bytes == 1 || std::abs(shown) >= 100 ? 0 : 1,
                     unit.name);
}

std::string precise_bytes_text(double bytes) {
  const ByteUnit& unit = byte_unit(std::abs(bytes));
  const double shown = bytes / unit.bytes;
  const double size = std::abs(shown);
  const int digits = size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0;
  return fmt::format("{:.{}f} {}", shown, unit.bytes == 1 ? 0 : digits, unit.name);
}

}  // namespace antegrad
