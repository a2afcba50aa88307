#pragma once

/// \file
/// Errors that libtorch raises while a callable is captured, where they mean something of ours.

#include <exception>
#include <string_view>

namespace antegrad::capture {

/// The exception that is being handled; or, where it is one of libtorch's, a DataDependentError if
/// its text says that it comes from an access to the data of a stand-in, a MutationError if
/// libtorch cannot functionalise a write.
std::exception_ptr typed_current_exception();

/// Throws what the text of an error that passed through another language means: the error of ours
/// that the capture on this thread raised last, or one of the above; returns when it is neither.
void rethrow_foreign(std::string_view text);

}  // namespace antegrad::capture
