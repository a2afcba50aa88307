#pragma once

/// \file
/// MD5 (RFC 1321), by which readers of structured traces check payloads. Not for security.

#include <string>
#include <string_view>

namespace antegrad {

/// 32 hexadecimal digits.
std::string md5(std::string_view text);

}  // namespace antegrad
