#pragma once

/// \file
/// Lossless hooks on saved tensors, which must not change any result.

#include <antegrad/saved_tensors.h>

#include <string>
#include <vector>

namespace antegrad::testing {

/// "copies": clones. "bytes": the memory as a list of bytes, with sizes and dtype. "halves": two
/// lists of elements. "flipped": floats as integers with all bits inverted, so that reading a
/// packed value is noticed. "eager": copies, packed and unpacked eagerly. In that order, each made
/// once.
const std::vector<Hooks>& exact_hooks();

/// One of these by name. Throws std::out_of_range for another name.
const Hooks& exact_hooks(const std::string& name);

}  // namespace antegrad::testing
