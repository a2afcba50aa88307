#pragma once

/// \file
/// Errors of backward passes on their way to a front end. libtorch's engine runs our nodes, and it
/// alone hands their errors to the caller: a front end for another language, whose exceptions the
/// engine knows, replaces them here.

#include <antegrad/error.h>

namespace antegrad::runtime {

/// Throws what `error` is for the front end, or returns, and the error stays what it is.
using ThrowForFront = void (*)(const Error& error);

/// Sets it for the process; null takes it back. Thread-safe.
void set_throw_for_front(ThrowForFront function);

/// To be called while `error` is handled: rethrows it, as the front end wants it.
[[noreturn]] void rethrow_for_front(const Error& error);

}  // namespace antegrad::runtime
