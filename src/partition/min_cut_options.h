#pragma once

/// \file
/// The options of the minimum-cut partition by name, for the command line and for records.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <antegrad/partition.h>

namespace antegrad {

/// "ban_recompute_reductions=true", one an option, in the order of MinCutOptions, with the value that
/// it has in `options`; `recomputable_ops` only where it is set.
std::vector<std::string> settings(const MinCutOptions& options);

/// The names of all options.
std::vector<std::string> setting_names();

/// Name and value of those that are true or false.
std::vector<std::pair<std::string, bool>> switches(const MinCutOptions& options);

/// Sets one option from "NAME=VALUE": `true` or `false`, a number, a word, or operators parted by commas.
/// Throws OptionError on an unknown name or a value that the option cannot have.
void apply_setting(MinCutOptions& options, std::string_view setting);

}  // namespace antegrad
