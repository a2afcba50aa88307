#include "common/gpu_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <torch/cuda.h>

namespace antegrad::bench {

int64_t gpu_peak_bytes(c10::DeviceIndex device, const std::function<void()>& run) {
  auto* const allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
  const auto allocated = [&] { return allocator->getDeviceStats(device).allocated_bytes[0]; };
  allocator->resetPeakStats(device);
  const auto before = allocated().current;
  run();
  torch::cuda::synchronize(device);
  return allocated().peak - before;
}

}  // namespace antegrad::bench
