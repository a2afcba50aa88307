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

}  // namespace antegrad::distributed
