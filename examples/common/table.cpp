#include "common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace antegrad::examples {
namespace {

const std::string& cell(const std::vector<std::string>& row, size_t column) {
  static const std::string empty;
  return column < row.size() ? row[column] : empty;
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < titles_.size(); ++i) {
    auto width = titles_[i].size();
    for (const auto& row : rows_) width = std::max(width, cell(row, i).size());
    widths.push_back(width);
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& row) {
    std::string cells;
    for (size_t i = 0; i < widths.size(); ++i) {
      cells += i == 0 ? fmt::format("{:<{}}", cell(row, i), widths[i])
                      : fmt::format("  {:>{}}", cell(row, i), widths[i]);
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    text += cells + "\n";
  };
  line(titles_);
  std::vector<std::string> rule;
  for (const auto width : widths) rule.emplace_back(width, '-');
  line(rule);
  for (const auto& row : rows_) line(row);
  return text;
}

std::string Table::markdown() const {
  std::string text;
  const auto line = [&](const auto& value_of) {
    text += "|";
    for (size_t i = 0; i < titles_.size(); ++i) text += " " + std::string(value_of(i)) + " |";
    text += "\n";
  };
  line([&](size_t i) { return titles_[i]; });
  line([](size_t i) { return i == 0 ? "---" : "---:"; });
  for (const auto& row : rows_) line([&](size_t i) { return cell(row, i); });
  return text;
}

std::string format_bytes(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  if (std::abs(value) < 1024) return fmt::format("{} B", bytes);
  const char* unit = "";
  for (const auto* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (std::abs(value) < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

}  // namespace antegrad::examples
