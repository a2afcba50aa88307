#pragma once

/// \file
/// Where in the user's source something happened.

#include <string>

namespace antegrad::capture {

/// Where user code called into libtorch: "file:line" or "object+offset" of the first stack frame that
/// is neither libtorch nor antegrad. Slow; for error messages.
std::string call_site();

}  // namespace antegrad::capture
