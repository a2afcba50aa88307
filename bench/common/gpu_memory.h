#pragma once

/// \file
/// Memory of a GPU.

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

namespace antegrad::bench {

/// The most bytes in the GPU's allocator while `run` runs, to the end of what it started there,
/// above those before.
int64_t gpu_peak_bytes(c10::DeviceIndex device, const std::function<void()>& run);

}  // namespace antegrad::bench
