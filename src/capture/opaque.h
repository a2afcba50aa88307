#pragma once

/// \file
/// Information about the code behind antegrad::opaque, by name.

#include <string>

namespace antegrad::capture {

/// Opaque::cache_hash of the latest code called by this name; "" if it has none. Throws InputError
/// for a name that was never called. Thread-safe.
std::string cache_hash_of_opaque(const std::string& name);

}  // namespace antegrad::capture
