#include "files/ownership.h"

#include <fmt/format.h>

namespace antegrad {

bool only_owner_writes(const struct stat& status) {
  return (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string owner_and_mode(const struct stat& status) {
  return fmt::format("owned by user {}, mode {:03o}", status.st_uid, status.st_mode & 0777U);
}

}  // namespace antegrad
