#pragma once

/// \file
/// Who owns a file that is to be trusted, and who else could have written it.

#include <sys/stat.h>

#include <string>

namespace antegrad {

/// Whether neither the group nor others can write it.
bool only_owner_writes(const struct stat& status);

/// "owned by user 1000, mode 644"
std::string owner_and_mode(const struct stat& status);

}  // namespace antegrad
