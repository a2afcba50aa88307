#pragma once

/// \file
/// Reads and writes byte counts as text: "512MiB", "1.5 GiB", "4096".

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// Reads a number and a unit: B (or none), KiB, MiB, GiB, TiB, in any case, with or without a
/// space between. Nothing for any other text, a negative number, or one that does not fit.
std::optional<int64_t> bytes_from_text(std::string_view text);

struct ByteUnit {
  double bytes;
  const char* name;  ///< "MiB"
};

/// The largest unit of which there are at least four, so that two digits distinguish neighbours.
const ByteUnit& byte_unit(double bytes);

/// "12.5 MiB", "3 KiB": bytes as charts and reports write them.
std::string bytes_text(double bytes);

/// "4.631 GiB": four digits, to distinguish similar plans.
std::string precise_bytes_text(double bytes);

/// The same for whole bytes.
template <std::integral T>
std::string bytes_text(T bytes) {
  return bytes_text(static_cast<double>(bytes));
}
template <std::integral T>
std::string precise_bytes_text(T bytes) {
  return precise_bytes_text(static_cast<double>(bytes));
}

}  // namespace antegrad
