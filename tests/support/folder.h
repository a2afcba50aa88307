#pragma once

/// \file
/// Folders that tests make.

#include <cstddef>
#include <filesystem>

namespace antegrad::testing {

/// Removes a folder of files; returns how many there were. One by one: libtorch 2.11 exports a
/// remove_all() that takes the place of the standard library's and crashes.
inline size_t remove_folder(const std::filesystem::path& folder) {
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    files += std::filesystem::remove(file.path()) ? 1 : 0;
  }
  std::filesystem::remove(folder);
  return files;
}

}  // namespace antegrad::testing
