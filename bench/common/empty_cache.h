#pragma once

/// \file
/// A folder for compiled kernels, empty at first.

#include <cstdint>
#include <filesystem>

namespace antegrad::bench {

/// Sets XDG_CACHE_HOME to a new folder, also for child processes, which is removed at the end.
class EmptyCache {
 public:
  EmptyCache();
  ~EmptyCache();
  EmptyCache(const EmptyCache&) = delete;
  EmptyCache& operator=(const EmptyCache&) = delete;

 private:
  std::filesystem::path folder_;
};

/// Libraries of compiled kernels below XDG_CACHE_HOME.
int64_t compiled_files();

}  // namespace antegrad::bench
