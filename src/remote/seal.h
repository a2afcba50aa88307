#pragma once

/// \file
/// Seals: who knows the key made these bytes for this name (HMAC, RFC 2104, with SHA-256).

#include <string>
#include <string_view>

namespace antegrad {

/// Hexadecimal. `key` is not empty.
std::string seal_of(std::string_view key, std::string_view name, std::string_view bytes);
/// Takes the same time wherever they differ.
bool is_same_seal(std::string_view a, std::string_view b);

}  // namespace antegrad
