#pragma once

/// \file
/// The text form of kernels, as docs/loop-ir.md describes it. Printing and parsing are inverse.

#include <string>
#include <string_view>

#include "lower/kernel.h"

namespace antegrad::lower {

std::string to_text(const Kernel& kernel);
/// One instruction as to_text() prints it, for messages.
std::string instruction_text(const Kernel& kernel, Id id);

/// The kernel that `text` describes. Checks the form only; verify() checks the rest. Throws
/// GraphError with line and column.
Kernel parse_kernel(std::string_view text, const std::string& origin = "kernel");

}  // namespace antegrad::lower
