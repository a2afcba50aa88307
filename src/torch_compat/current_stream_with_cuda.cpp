#include <c10/cuda/CUDAStream.h>

#include "torch_compat/current_stream.h"

namespace antegrad::torch_compat {

void* current_stream(c10::Device device) {
  return device.is_cuda() ? c10::cuda::getCurrentCUDAStream(device.index()).stream() : nullptr;
}

}  // namespace antegrad::torch_compat
