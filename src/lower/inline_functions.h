#pragma once

/// \file
/// Functions of Sleef that CodeBuilder makes instructions of. Another release of Sleef may round
/// otherwise: then EagerCpu::sleef_in_line is false, and kernels call the functions.

#include <string>
#include <string_view>

#include "lower/c_target.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// Names as in recipes, behind vec_.
inline constexpr std::string_view kInlineFunctions[] = {"exp", "tanh"};

/// The symbol of such a function on f32, for all elements of a vector of the capability, which is
/// not the baseline.
std::string sleef_symbol(std::string_view function, Capability capability);

/// A kernel of that name which applies the function to `n` elements of f32: buffers x and y.
Kernel function_kernel(std::string name, std::string_view function, Capability capability,
                       bool in_line);

}  // namespace antegrad::lower
