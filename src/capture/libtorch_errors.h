#pragma once

/// \file
/// Errors that libtorch raises while a callable is captured, where they mean something of ours.

#include <c10/util/Exception.h>

namespace antegrad::capture {

/// Throws DataDependentError when `error` comes from an access to the data of a stand-in, MutationError when libtorch
/// cannot functionalise a write; returns otherwise.
void rethrow_typed(const c10::Error& error);

}  // namespace antegrad::capture
