#pragma once

/// \file
/// Where in the user's source something happened.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad::capture {

/// Where user code called into libtorch: "file:line" of the first stack frame that is neither
/// libtorch nor antegrad; the front end says which line of Python. Without debug information it is
/// "file" or "object+offset", and what to compile with. Slow; for error messages.
std::string call_site();

/// The stack of now, cheap to take, and the same as above for it.
std::vector<void*> stack_frames();
std::string call_site(std::span<void* const> frames);

/// The same for the stack that the text of a c10::Error shows.
std::string call_site(std::string_view backtrace);

}  // namespace antegrad::capture
