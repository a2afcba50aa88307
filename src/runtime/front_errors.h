#pragma once

/// \file
/// Translates errors of backward passes for a front end. libtorch's engine runs our nodes and
/// passes their errors to the caller. A front end for another language replaces them here by
/// exceptions that the engine knows.

#include <antegrad/error.h>

namespace antegrad::runtime {

/// Throws the front end's exception for `error`, or returns, which leaves the error as it is.
using ThrowForFront = void (*)(const Error& error);

/// Sets the function for the process; null removes it. Thread-safe.
void set_throw_for_front(ThrowForFront function);

/// Call in the handler of `error`: rethrows it, translated for the front end.
[[noreturn]] void rethrow_for_front(const Error& error);

}  // namespace antegrad::runtime
