#pragma once

/// \file
/// Two descriptions of one output, compared and in words.

#include <string>
#include <vector>

#include "shapes/shape_call.h"

namespace antegrad::shapes {

/// "Float[2, 3]/[3, 1] on cpu": dtype, sizes, strides; "+7" for an offset; "undefined", or an integer.
std::string to_text(const Spec& spec);

/// Where `answers` differ from what an operator returned; empty when nowhere.
std::string difference(const std::vector<Spec>& answers, const std::vector<Spec>& returned);

}  // namespace antegrad::shapes
