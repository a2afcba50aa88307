#pragma once

/// \file
/// One line on standard error that says how far something is: for people who wait, and for nobody
/// else.

#include <chrono>
#include <string>

namespace antegrad::cli {

/// Shows nothing unless standard error is a terminal, nor in the first moments, nor after its end.
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
