#pragma once

/// \file
/// What is known of the code behind antegrad::opaque, by name.

#include <string>

namespace antegrad::capture {

/// Opaque::cache_hash of the newest code that was called by that name; "" where it has none. Throws
/// InputError for a name that nobody called. Thread-safe.
std::string cache_hash_of_opaque(const std::string& name);

}  // namespace antegrad::capture
