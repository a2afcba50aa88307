#pragma once

/// \file
/// The tables of options as docs/options.md has them, and as the command line prints them.

#include <string>

#include "options/reference.h"
#include "options/table.h"

namespace antegrad {

/// Markdown tables of all options, one for each group.
std::string options_page();

/// A Markdown table of the reference's options, and what became of them.
std::string reference_page();

/// Names, types and defaults, one a line.
std::string options_list();

/// All about one of them.
std::string details(const OptionRow& row);

/// A list of objects, one an option.
std::string options_json();

}  // namespace antegrad
