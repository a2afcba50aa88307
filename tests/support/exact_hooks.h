#pragma once

/// \file
/// Hooks on saved tensors that keep every bit, so that what runs under them is as without.

#include <antegrad/saved_tensors.h>

#include <string>
#include <vector>

namespace antegrad::testing {

/// "copies": clones. "bytes": the memory as a list of bytes, with sizes and dtype beside it.
/// "halves": two lists of elements. "flipped": floats as integers with every bit the other way, so
/// that what is read unpacked shows. "eager": copies, packed and unpacked when the program runs. In
/// that order, each made once.
const std::vector<Hooks>& exact_hooks();

/// One of these by name. Throws std::out_of_range for another name.
const Hooks& exact_hooks(const std::string& name);

}  // namespace antegrad::testing
