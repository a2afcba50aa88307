#pragma once

/// \file
/// Memory that LeakSanitizer must ignore.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace antegrad::fuzz {

/// While this object lives, allocations of this thread count as in use. For programs that run
/// eagerly: x.mul_(x) saves the written tensor for its own history, and each keeps the other alive.
#if defined(__SANITIZE_ADDRESS__)
using NotOurLeaks = __lsan::ScopedDisabler;
#else
struct NotOurLeaks {};
#endif

}  // namespace antegrad::fuzz
