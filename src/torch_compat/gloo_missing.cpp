// Where Gloo's headers were not found.

#include "torch_compat/gloo.h"

namespace antegrad::torch_compat {

c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                               int /*rank*/, int /*size*/,
                                               std::chrono::milliseconds /*timeout*/) {
  return nullptr;
}

}  // namespace antegrad::torch_compat
