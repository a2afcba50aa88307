#pragma once

/// \file
/// A small table for terminals and reports.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace antegrad::examples {

/// A table of text. The first column is aligned left, all others right. A row may be shorter than
/// the header.
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// The table as text: columns padded with spaces, a line under the header.
  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

/// "307.2 MiB", in a suitable unit.
std::string format_bytes(int64_t bytes);

}  // namespace antegrad::examples
