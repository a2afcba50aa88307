#pragma once

/// \file
/// Adds the place to errors of kernels in a running program.

#include <cstdint>
#include <functional>
#include <string>

namespace antegrad::runtime {

/// The line of the callable for a node of the captured graph; "" if unknown.
using LineFinder = std::function<std::string(int32_t node)>;

/// Rethrows the exception being handled with `context` added to its text, and the same type: those
/// of libtorch, antegrad and the standard library. Exceptions of other types are rethrown
/// unchanged, and `context` becomes a libtorch warning.
[[noreturn]] void rethrow_with(const std::string& context);

}  // namespace antegrad::runtime
