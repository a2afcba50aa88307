#pragma once

/// \file
/// Numbers of bytes as people write and read them: "512MiB", "1.5 GiB", "4096".

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace antegrad {

/// A number and a unit: B (or none), KiB, MiB, GiB, TiB, in any case, with or without a blank between. Nothing when
/// the text is none of that, is negative, or does not fit.
std::optional<int64_t> bytes_from_text(std::string_view text);

struct ByteUnit {
  double bytes;
  const char* name;  ///< "MiB"
};

/// The largest unit of which there are at least four, so that two digits tell neighbours apart.
const ByteUnit& byte_unit(double bytes);

/// "12.5 MiB", "3 KiB": bytes as the charts and reports write them.
std::string bytes_text(double bytes);

/// "4.631 GiB": to four digits, where a plan is told from the next.
std::string precise_bytes_text(double bytes);

/// The same of whole bytes.
template <std::integral T>
std::string bytes_text(T bytes) {
  return bytes_text(static_cast<double>(bytes));
}
template <std::integral T>
std::string precise_bytes_text(T bytes) {
  return precise_bytes_text(static_cast<double>(bytes));
}

}  // namespace antegrad
