#pragma once

/// \file
/// Whether the Sleef that libtorch was built with has the bits that generated kernels compute in
/// line (lower/inline_functions.h). Sleef's releases differ in coefficients, which a sample shows.

#include <string_view>

#include "lower/c_target.h"

namespace antegrad {

/// Whether the function at `symbol`, of vectors of the capability, has the bits of our code for
/// `function` on a sample of all floats.
bool has_our_bits(std::string_view function, const void* symbol, lower::Capability capability);

/// Whether that holds for all functions that libtorch exports. Compared once a process.
bool sleef_has_our_bits(lower::Capability capability);

}  // namespace antegrad
