#pragma once

/// \file
/// Texts in parts.

#include <algorithm>
#include <string_view>
#include <vector>

namespace antegrad {

/// The parts of a text that `mark` separates. A mark at its end adds no empty one.
inline std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(mark), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace antegrad
