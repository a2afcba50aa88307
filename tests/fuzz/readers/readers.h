#pragma once

/// \file
/// Everything that reads text or files which others may have made, for fuzzers.

#include <cstddef>
#include <span>
#include <string_view>

namespace antegrad::testing {

struct Reader {
  std::string_view name;
  /// Reads the bytes. What is wrong with them is an antegrad::Error and ends here; whatever else
  /// comes out is a bug, as is what reads otherwise once it was written again: then it aborts.
  void (*read)(std::string_view bytes);
};

std::span<const Reader> readers();

}  // namespace antegrad::testing
