#pragma once

/// \file
/// The boolean options of the minimum cut, for tests that set them at random.

#include <string>
#include <utility>
#include <vector>

#include "options/settings.h"

namespace antegrad::testing {

/// Name and value, in the order of the table.
inline std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options) {
  std::vector<std::pair<std::string, bool>> all;
  for (const std::string& setting : settings(options)) {
    const auto [name, value] = name_and_value(setting);
    if (value == "true" || value == "false") all.emplace_back(name, value == "true");
  }
  return all;
}

}  // namespace antegrad::testing
