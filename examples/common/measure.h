#pragma once

/// \file
/// Measured time and memory of training steps.

#include <ATen/core/Tensor.h>
#include <antegrad/memory.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace antegrad::examples {

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The middle value, or the mean of the two middle ones; 0 for an empty list.
double median(std::vector<double> values);

struct StepMemory {
  int64_t peak_bytes = 0;
  int64_t held_bytes = 0;             ///< live between forward and backward, the result included
  std::vector<MemoryEvent> timeline;  ///< every change of the live bytes
  double backward_ms = 0;             ///< when the backward started, on the timeline's clock
  double milliseconds = 0;            ///< forward and backward
};

/// Runs `forward` and the backward of its result. Measures the peak of libtorch's CPU allocator
/// between entry and the end of the backward, minus the bytes live at entry. The peak is defined
/// for undefined `.grad`: clear the gradients before.
StepMemory measure_memory(const std::function<at::Tensor()>& forward);

}  // namespace antegrad::examples
