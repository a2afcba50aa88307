#include "compile/stages.h"

#include <utility>

namespace antegrad::compiler {

using Milliseconds = std::chrono::duration<double, std::milli>;

Stages::Stages(double capture_ms)
    : capture_ms_(capture_ms), stages_{CompileStage{"capture", 0, capture_ms}} {}

double Stages::since_capture_began(Clock::time_point time) const {
  return capture_ms_ + Milliseconds(time - start_).count();
}

double Stages::milliseconds() const { return Milliseconds(Clock::now() - start_).count(); }

void Stages::end(std::string name) {
  const auto& last = stages_.back();
  const double start = last.start_ms + last.milliseconds;
  stages_.push_back({std::move(name), start, since_capture_began(Clock::now()) - start});
}

std::vector<CompileStage> Stages::with(const std::vector<PassRecord>& passes) const {
  auto all = stages_;
  for (const auto& pass : passes) {
    all.push_back({pass.name, since_capture_began(pass.start), pass.seconds * 1e3,
                   static_cast<int64_t>(pass.nodes_before),
                   static_cast<int64_t>(pass.nodes_after)});
  }
  return all;
}

}  // namespace antegrad::compiler
