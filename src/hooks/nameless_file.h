#pragma once

/// \file
/// Bytes in an unnamed file: no other process can open it, and the file system frees it however the
/// process ends. Forked processes read the same bytes.
///
/// The file is written with write(), so that a full disk is an error code and not a signal. It is
/// mapped for reading, which needs no file descriptor. Unread pages belong to the page cache: the
/// system writes them to disk and reuses their memory when needed.

#include <cstddef>
#include <string>

#include "torch_compat/scope.h"

namespace antegrad::hooks {

class NamelessFile : torch_compat::Scope {
 public:
  /// Writes `bytes` > 0 bytes. Throws HookError if the directory does not accept files, or not of
  /// this size.
  NamelessFile(const std::string& directory, const void* data, size_t bytes);
  ~NamelessFile();

  /// Copies all bytes to `to`. May be called on any thread, also concurrently.
  void read(void* to) const;

 private:
  size_t bytes_;
  void* mapping_ = nullptr;
};

}  // namespace antegrad::hooks
