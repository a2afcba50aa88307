#pragma once

/// \file
/// Where in the user's source something happened.

#include <string>
#include <string_view>

namespace antegrad::capture {

/// Where user code called into libtorch: "file:line" or "object+offset" of the first stack frame that
/// is neither libtorch nor antegrad. Slow; for error messages.
std::string call_site();

/// The same for the stack that the text of a c10::Error shows.
std::string call_site(std::string_view backtrace);

}  // namespace antegrad::capture
