#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/StringUtil.h>

#include "torch_compat/device_model.h"

namespace antegrad::torch_compat {

std::string cuda_model(c10::Device device) {
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return c10::str(properties->name, ", ", properties->multiProcessorCount, " multiprocessors");
}

}  // namespace antegrad::torch_compat
