#pragma once

/// \file
/// One progress line on standard error, shown only on a terminal.

#include <chrono>
#include <string>

namespace antegrad::cli {

/// Shows nothing if standard error is not a terminal, in the first moments, or after the end.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From 0 to 1. May be called often.
  void show(double done);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool terminal_;
  bool shown_ = false;
  int percent_ = -1;
  Clock::time_point start_;
};

}  // namespace antegrad::cli
