#pragma once

/// \file
/// Source locations in user code.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace antegrad::capture {

/// The place where user code called libtorch: "file:line" of the first stack frame outside of
/// libtorch and antegrad. The front end provides lines of Python. Without debug information it is
/// "file" or "object+offset", and how to compile. Slow; for error messages.
std::string call_site();

/// The current stack, which is fast to record, and its call site as above.
std::vector<void*> stack_frames();
std::string call_site(std::span<void* const> frames);

/// The call site in the stack that the text of a c10::Error shows.
std::string call_site(std::string_view backtrace);

}  // namespace antegrad::capture
