#pragma once

/// \file
/// Times of the stages of one compilation, for its report.

#include <antegrad/report.h>

#include <chrono>
#include <string>
#include <vector>

#include "passes/pass_manager.h"

namespace antegrad::compiler {

/// Started after the capture. Each end() closes the stage that began at the one before.
class Stages {
 public:
  explicit Stages(double capture_ms);

  void end(std::string name);
  /// All stages so far, and the passes that ran in them.
  std::vector<CompileStage> with(const std::vector<PassRecord>& passes) const;
  /// Since the capture.
  double milliseconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  double since_capture_began(Clock::time_point time) const;

  const Clock::time_point start_ = Clock::now();
  const double capture_ms_;
  std::vector<CompileStage> stages_;
};

}  // namespace antegrad::compiler
