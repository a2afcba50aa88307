#pragma once

/// \file
/// Errors that libtorch raises while a callable is captured, where they mean something of ours.

#include <c10/util/Exception.h>

namespace antegrad::capture {

/// Throws DataDependentError when `error` comes from an access to the data of a stand-in, MutationError when libtorch
/// cannot functionalise a write; returns otherwise.
void rethrow_typed(const c10::Error& error);

/// The same for an error of a backward pass. Throws BackwardError when an operator saved what was written later: of
/// some tensors libtorch cannot tell which, since it asks a stand-in for its device.
void rethrow_typed_of_backward(const c10::Error& error);

}  // namespace antegrad::capture
