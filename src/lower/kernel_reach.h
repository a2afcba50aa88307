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

/// Whether a buffer of a kernel over rows of one dimension has elements that follow each other from
/// row to row, not along a row, as in a transposed tensor.
bool lies_across_rows(const Kernel& kernel, const Buffer& buffer);

/// Rows of a block of which the printer transposes such buffers, and the elements of the longest
/// rows for which it does.
inline constexpr int32_t kTurnedRows = 16;
inline constexpr int32_t kTurnedElements = 1024;

}  // namespace antegrad::lower
