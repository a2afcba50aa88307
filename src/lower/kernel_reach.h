#pragma once

/// \file
/// Which code of a kernel a run goes through. A kernel serves all sizes, but sizes decide whether a
/// row has whole vectors and a rest, whether threads share it, and how deep a sum is. Two runs with
/// the same reach run the same code as often, or in the same way more often; so what was shown of
/// one holds for the other.

#include <cstdint>
#include <span>
#include <string>

#include "lower/kernel.h"

namespace antegrad::lower {

/// `numbers`: the kernel's arguments. `part`: how many of parallel_size() each thread but the last
/// gets, as elements_of_a_thread() says. Sizes count with their rest by 512, or by 16 where they
/// are rows, and the powers of two around them, numbers that are no sizes with their value, strides
/// not at all.
std::string reach_of(const Kernel& kernel, std::span<const int64_t> numbers, int64_t part);

}  // namespace antegrad::lower
