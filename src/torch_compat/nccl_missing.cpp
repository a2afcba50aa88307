// Where libtorch has no CUDA, or NCCL's headers were not found.

#include "torch_compat/nccl.h"

namespace antegrad::torch_compat {

c10::intrusive_ptr<c10d::Backend> nccl_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                               int /*rank*/, int /*size*/,
                                               std::chrono::milliseconds /*timeout*/) {
  return nullptr;
}

}  // namespace antegrad::torch_compat
