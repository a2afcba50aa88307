#pragma once

/// \file
/// Sets several options by name at once, and reads those of the minimum cut as "NAME=VALUE", for
/// the command line and for records.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options/table.h"

namespace antegrad {

/// Name and value. If two options exclude each other the last one wins, except that a given
/// `partition` always holds, wherever it is in the list.
using Setting = std::pair<std::string, OptionValue>;
void apply_settings(const std::vector<Setting>& settings, Options& options);

/// The two sides of "NAME=VALUE". Throws OptionError for another text.
std::pair<std::string_view, std::string_view> name_and_value(std::string_view setting);

/// "ban_recompute_reductions=true", one per option, in the order of the table, with the values in
/// `options`; `recomputable_ops` only if it is set.
std::vector<std::string> settings(const MinCutOptions& options);

/// Name and value of the boolean options.
std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options);

/// Sets one option of the minimum cut from "NAME=VALUE". Throws OptionError on an unknown name or
/// a value that the option cannot have.
void apply_setting(MinCutOptions& options, std::string_view setting);

}  // namespace antegrad
