#pragma once

/// \file
/// The tables of options in docs/options.md and on the command line.

#include <string>

#include "options/reference.h"
#include "options/table.h"

namespace antegrad {

/// Markdown tables of all options, one for each group.
std::string options_page();

/// A Markdown table of the options of AOTAutograd, and what became of them.
std::string reference_page();

/// Names, types and defaults, one option per line.
std::string options_list();

/// Everything about one option.
std::string details(const OptionRow& row);

/// A list of objects, one per option.
std::string options_json();

}  // namespace antegrad
