#pragma once

/// \file
/// Translates errors that libtorch raises during a capture.

#include <exception>
#include <string_view>

namespace antegrad::capture {

/// The exception being handled. For an error of libtorch: a DataDependentError if its text shows an
/// access to the data of a stand-in, or a MutationError if libtorch cannot functionalise a write.
std::exception_ptr typed_current_exception();

/// For an error that passed through another language, given its text: throws the last antegrad
/// error that the capture on this thread raised, or one of the errors above. Returns if it is none
/// of these.
void rethrow_foreign(std::string_view text);

}  // namespace antegrad::capture
