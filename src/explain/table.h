#pragma once

/// \file
/// Text in columns, for reports.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {

enum class Align : uint8_t { left, right };

/// Columns are as wide as their widest cell, two spaces apart, and lines are indented by two.
class Table {
 public:
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}
  /// A cell for each column.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Lines end with a newline, and without spaces before it.
  std::string text() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace antegrad
