#pragma once

/// \file
/// Errors that libtorch raises while a callable is captured, where they mean something of ours.

#include <c10/util/Exception.h>

#include <string_view>

namespace antegrad::capture {

/// Throws DataDependentError when the text of an error says that it comes from an access to the data of a stand-in,
/// MutationError when libtorch cannot functionalise a write; returns otherwise.
void rethrow_typed(std::string_view text);

/// The same for the text of an error that passed through another language. Throws the error of ours that the capture
/// on this thread raised last, where it is that.
void rethrow_foreign(std::string_view text);

}  // namespace antegrad::capture
