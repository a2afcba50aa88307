#include <antegrad/error.h>

#include "torch_compat/device_graph.h"

namespace antegrad::torch_compat {

std::unique_ptr<DeviceGraph> record_graph(c10::Device, const std::function<void()>&) {
  throw InternalError("a CUDA graph, without CUDA");
}

}  // namespace antegrad::torch_compat
