#include "explain/table.h"

#include <algorithm>

#include <fmt/format.h>

namespace antegrad {

std::string Table::text() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += columns_[i] == Align::right ? fmt::format("  {:>{}}", row[i], widths[i])
                                          : fmt::format("  {:<{}}", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace antegrad
