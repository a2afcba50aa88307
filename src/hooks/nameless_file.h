#pragma once

/// \file
/// Bytes in a file that has no name: nobody else can open it, and however the process ends, the
/// file system takes it back. What a process forks reads the same bytes.
///
/// The file is written, not mapped, so that a full disk is an error code and not a signal; it is
/// mapped to be read, which takes no file descriptor meanwhile. Pages that nobody reads belong to
/// the page cache: the system writes them to disk and uses their memory when it needs it.

#include <cstddef>
#include <string>

namespace antegrad::hooks {

class NamelessFile {
 public:
  /// Writes `bytes` > 0 bytes. Throws HookError where the directory takes no file, or no such large
  /// one.
  NamelessFile(const std::string& directory, const void* data, size_t bytes);
  ~NamelessFile();
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  /// Copies all bytes to `to`. On any thread, on several at once.
  void read(void* to) const;

 private:
  size_t bytes_;
  void* mapping_ = nullptr;
};

}  // namespace antegrad::hooks
