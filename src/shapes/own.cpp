/// \file
/// antegrad's own operators whose results are on another device than their arguments.

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// A handle: eight bytes on the CPU.
bool offload(Call& call) { return call.returns(fresh({sizeof(int64_t)}, at::kByte, at::kCPU)); }

bool fetch(Call& call) {
  Spec spec;
  spec.sizes = call.arg(1).toDimVector();
  spec.strides = call.arg(2).toDimVector();
  spec.dtype = *call.dtype(3);
  spec.device = call.arg(4).toDevice();
  // "cuda" means the current device, which is only known when the tensor is created.
  if (!spec.device.is_cpu() && !spec.device.has_index()) return false;
  return call.returns(std::move(spec));
}

}  // namespace

constexpr Family own_family = {
    {"antegrad::fetch", fetch},
    {"antegrad::offload", offload},
};

}  // namespace antegrad::shapes
