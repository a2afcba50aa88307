#pragma once

/// \file
/// Compares two descriptions of one output, and prints them.

#include <string>
#include <vector>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

/// "Float[2, 3]/[3, 1] on cpu": dtype, sizes, strides; "+7" for an offset; "undefined", or an
/// integer.
std::string to_text(const Spec& spec);

/// The difference between `answers` and what an operator returned; empty if there is none.
std::string difference(const std::vector<Spec>& answers, const std::vector<Spec>& returned);

}  // namespace antegrad::shapes
