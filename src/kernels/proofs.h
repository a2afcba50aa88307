#pragma once

/// \file
/// Which kernels proved themselves on this machine, which of two forms did not, and how long they
/// took: kept between processes in a file of a private folder. What a fact is about is
/// a hash.
///
/// Processes append to it without locks. A line that is not whole, or a file that is not this
/// user's own, is not used; then kernels prove themselves again.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

  bool proven(const Hash128& claim) const { return is_in(proven_, claim); }
  void add(const Hash128& claim);

  bool disproven(const Hash128& claim) const { return is_in(disproven_, claim); }
  void add_disproof(const Hash128& claim);

  /// Nothing for what was not measured.
  std::optional<RunTimes> times(const Hash128& run) const;
  void add(const Hash128& run, const RunTimes& times);

  /// Lines, such as facts() returns. What is known already stays. With `keeps`, they are kept as if
  /// they had been found here.
  void take(const std::vector<std::string>& lines, bool keeps);
  /// What this process found or asked for, in lines.
  std::vector<std::string> facts() const;

 private:
  bool is_in(const std::set<std::string>& facts, const Hash128& about) const;
  void take_line(std::string_view line);
  void keep(const std::string& lines) const;

  std::string folder_;
  mutable std::set<std::string> asked_;  // hashes
  std::set<std::string> proven_, disproven_;
  std::map<std::string, RunTimes> times_;
};

}  // namespace antegrad::kernels
