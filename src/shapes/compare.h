#pragma once

/// \file
/// Compares two descriptions of one output, and prints them.

#include <string>
#include <vector>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

/// The text of a tensor's metadata, or an integer.
std::string to_text(const Spec& spec);

/// The first difference between `answers` and what an operator returned: "output 0: the kernel
/// returns sizes [2, 3] instead of [2, 4]". Empty if there is none.
std::string difference(const std::vector<Spec>& answers, const std::vector<Spec>& returned);

}  // namespace antegrad::shapes
