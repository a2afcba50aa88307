#include "options/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace antegrad {
namespace {

constexpr size_t kMostNames = 3;

/// The edit distance: letters to insert, remove or replace.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view name,
                                            std::span<const std::string_view> names) {
  size_t fewest = (name.size() + 2) / 3;
  std::vector<std::string_view> nearest;
  for (const std::string_view known : names) {
    const size_t distance = edits(name, known);
    if (distance > fewest) continue;
    if (distance < fewest) nearest.clear();
    fewest = distance;
    nearest.push_back(known);
  }
  if (nearest.empty() && name.size() > 2) {
    std::copy_if(names.begin(), names.end(), std::back_inserter(nearest),
                 [&](std::string_view known) { return known.find(name) != known.npos; });
  }
  nearest.resize(std::min(nearest.size(), kMostNames));
  return nearest;
}

}  // namespace antegrad
