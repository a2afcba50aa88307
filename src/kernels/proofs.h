#pragma once

/// \file
/// Which runs of kernels proved themselves on this machine, and how long they took: kept between
/// processes in a file of the private folder (folder.h), by hash.
///
/// Processes append to it without locks. A line that is not whole, or a file that is not this
/// user's own, is not used; then kernels prove themselves again.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "graph/hash.h"

namespace antegrad::kernels {

/// Of one run, in nanoseconds.
struct RunTimes {
  int64_t kernel = 0;
  int64_t library = 0;  ///< of the library's kernels that it replaces
  friend bool operator==(const RunTimes&, const RunTimes&) = default;
};

class Proofs {
 public:
  /// Of a folder (folder_of()); reads what is there. Without a sound folder nothing is kept.
  explicit Proofs(std::string folder);

  /// Nothing for a run that did not prove itself.
  std::optional<RunTimes> find(const Hash128& run) const;
  void add(const Hash128& run, const RunTimes& times);

 private:
  std::string folder_;
  std::map<std::string, RunTimes> known_;
};

}  // namespace antegrad::kernels
