#pragma once

/// \file
/// Options as "NAME=VALUE", for the command line and for records; several options by name at once.

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

/// Names of the options of a group, in the order of the table.
std::vector<std::string_view> names_of(OptionGroup group);

/// "ban_recompute_reductions=true", one for each of the named options that is set.
std::vector<std::string> settings(const Options& options,
                                  const std::vector<std::string_view>& names);
/// The same for all options of the minimum cut.
std::vector<std::string> settings(const MinCutOptions& options);

/// Sets one option of the minimum cut from "NAME=VALUE". Throws OptionError on an unknown name or
/// a value that the option cannot have.
void apply_setting(MinCutOptions& options, std::string_view setting);

}  // namespace antegrad
