#pragma once

/// \file
/// What the server of Options::remote_cache did for this process (docs/remote-cache.md).

#include <cstdint>
#include <iosfwd>

namespace antegrad {

/// Counts since the process began.
struct RemoteCacheStats {
  int64_t hits = 0;      ///< entries that were taken
  int64_t misses = 0;    ///< that the server did not have
  int64_t stored = 0;    ///< that were sent
  int64_t rejected = 0;  ///< that the server had, and that were damaged or not sealed by us
  int64_t failures = 0;  ///< requests that the server did not answer in time, or refused
  int64_t skipped = 0;   ///< requests that were not made, since the server had just failed
  int64_t bytes_received = 0;
  int64_t bytes_sent = 0;
  double milliseconds = 0;  ///< spent waiting
};

/// Thread-safe.
RemoteCacheStats remote_cache_stats();

std::ostream& operator<<(std::ostream& out, const RemoteCacheStats& stats);

}  // namespace antegrad
