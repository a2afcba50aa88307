#pragma once

/// \file
/// Which runs of kernels proved themselves on this machine: hashes, kept between processes in a
/// file of the private folder (folder.h).
///
/// Processes append to it without locks. A line that is not whole, or a file that is not this
/// user's own, is not used; then kernels prove themselves again.

#include <set>
#include <string>

#include "graph/hash.h"

namespace antegrad::kernels {

class Proofs {
 public:
  /// Of a folder (folder_of()); reads what is there. Without a sound folder nothing is kept.
  explicit Proofs(std::string folder);

  bool has(const Hash128& run) const { return known_.contains(to_string(run)); }
  void add(const Hash128& run);

 private:
  std::string folder_;
  std::set<std::string> known_;
};

}  // namespace antegrad::kernels
