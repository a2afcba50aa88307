#include "graph/byte_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace antegrad {
namespace {

constexpr std::array<std::string_view, 5> kUnits = {"b", "kib", "mib", "gib", "tib"};

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
  const auto it = std::find(kUnits.begin(), kUnits.end(), unit);
  if (it == kUnits.end()) return std::nullopt;
  const double bytes = std::round(std::ldexp(number, static_cast<int>(10 * (it - kUnits.begin()))));
  if (!(bytes < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace antegrad
