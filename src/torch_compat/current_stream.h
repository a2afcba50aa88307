#pragma once

/// \file
/// The stream on which this thread's kernels of a device run.

#include <c10/core/Device.h>

namespace antegrad::torch_compat {

/// As the driver of CUDA knows it. Null for a device without streams.
void* current_stream(c10::Device device);

}  // namespace antegrad::torch_compat
