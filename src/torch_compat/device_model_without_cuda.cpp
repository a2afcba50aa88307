#include "torch_compat/device_model.h"

namespace antegrad::torch_compat {

std::string cuda_model(c10::Device) { return "CUDA"; }

}  // namespace antegrad::torch_compat
