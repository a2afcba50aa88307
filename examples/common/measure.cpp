#include "common/measure.h"

#include <algorithm>

namespace antegrad::examples {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

StepMemory measure_memory(const std::function<at::Tensor()>& forward) {
  StepMemory memory;
  const MemoryMeter meter(/*record_events=*/true);
  const Stopwatch watch;
  const auto loss = forward();
  memory.backward_ms = watch.milliseconds();
  memory.held_bytes = meter.live_bytes();
  loss.backward();
  memory.milliseconds = watch.milliseconds();
  memory.peak_bytes = meter.peak_bytes();
  memory.timeline = meter.events();
  return memory;
}

}  // namespace antegrad::examples
