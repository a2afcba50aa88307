#pragma once

/// \file
/// What a launcher says about this process, in environment variables.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace antegrad::distributed {

struct Launch {
  std::string launcher = {};  ///< in words, for messages
  int32_t rank = 0;
  int32_t size = 1;
  int32_t local_rank = 0;          ///< among the processes of this machine
  std::string host = "127.0.0.1";  ///< where the processes find each other
  uint16_t port = 0;               ///< 0 for a single process
  /// Whether the launcher itself serves at that port; otherwise rank 0 does.
  bool served = false;
  /// Before names of what is kept there: a launcher may start a group again.
  std::string prefix = {};
  friend bool operator==(const Launch&, const Launch&) = default;
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Throws InputError for variables that contradict each other, are no numbers, or are missing.
Launch read_launch(const Environment& environment);
Launch read_launch();

/// Launch::local_rank, if a launcher says it. Throws InputError if it is no number.
std::optional<int32_t> read_local_rank(const Environment& environment);
std::optional<int32_t> read_local_rank();

}  // namespace antegrad::distributed
