#pragma once

/// \file
/// What a kernel throws while a program runs, told with the place.

#include <cstdint>
#include <functional>
#include <string>

namespace antegrad::runtime {

/// The line of the callable that a node of the captured graph comes from, "" when it cannot be
/// told.
using LineFinder = std::function<std::string(int32_t node)>;

/// Rethrows the exception that is being handled with `context` added to its text. Its type stays:
/// that of libtorch's errors, of ours and of the standard library's. One of another type stays as
/// it is, and `context` becomes a libtorch warning.
[[noreturn]] void rethrow_with(const std::string& context);

}  // namespace antegrad::runtime
