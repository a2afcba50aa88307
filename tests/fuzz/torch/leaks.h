#pragma once

/// \file
/// What LeakSanitizer is not asked about.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace antegrad::fuzz {

/// While it lives, what is allocated on this thread counts as in use. For programs that run in
/// eager: there x.mul_(x) saves the written tensor for its own history, and each keeps the other
/// alive.
#if defined(__SANITIZE_ADDRESS__)
using NotOurLeaks = __lsan::ScopedDisabler;
#else
struct NotOurLeaks {};
#endif

}  // namespace antegrad::fuzz
