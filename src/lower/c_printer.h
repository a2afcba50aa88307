#pragma once

/// \file
/// Prints kernels as C: no headers, explicit GNU vector types, every fused multiply-add spelt out.
/// The code has the bits of interpret() on every target. Compile it with
/// kernels::flags_of().
///
/// A kernel becomes a function of its name, which may run on several threads at once:
///   void NAME(char* const* buffers, const int64_t* numbers, int64_t begin, int64_t end,
///             int64_t thread)
/// `buffers` are the addresses of the kernel's buffers; `numbers` its arguments, scalars as the
/// bits of a double; [begin, end) the part of its parallel space (parallel_size()) that is done.

#include <span>
#include <string>

#include "lower/c_target.h"
#include "lower/kernel.h"

namespace antegrad::lower {

/// One C file with all `kernels`, which must be valid and have different names.
std::string c_source(std::span<const Kernel> kernels, const CTarget& target);

}  // namespace antegrad::lower
