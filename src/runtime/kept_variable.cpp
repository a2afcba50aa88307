#include "runtime/kept_variable.h"

#include <antegrad/error.h>

#include <utility>

namespace antegrad::runtime {

KeptVariable::KeptVariable(const at::Tensor& tensor, bool is_output)
    : variable_(tensor, is_output),
      storage_(tensor.storage().getWeakStorageImpl()),
      data_(tensor.unsafeGetTensorImpl()->data()),
      dtype_(tensor.scalar_type()) {}

at::Tensor KeptVariable::unpack(torch_compat::NodePtr node) const {
  auto tensor = variable_.unpack(std::move(node));
  if (storage_._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
      data_ == tensor.unsafeGetTensorImpl()->data() && dtype_ == tensor.scalar_type()) {
    return tensor;
  }
  throw BackwardError(ErrorText{"arguments and parameters whose data is that of the call",
                                "one that was given other data since (set_data(), or module.to())",
                                "run backward before a module is moved"});
}

}  // namespace antegrad::runtime
