#include "runtime/kept_variable.h"

#include <antegrad/error.h>

#include <utility>

#include "torch_compat/tensor_state.h"

namespace antegrad::runtime {

KeptVariable::KeptVariable(const at::Tensor& tensor, bool is_output)
    : variable_(tensor, is_output),
      storage_(tensor.storage().getWeakStorageImpl()),
      offset_(tensor.storage_offset()),
      dtype_(tensor.scalar_type()) {}

at::Tensor KeptVariable::unpack(torch_compat::NodePtr node) const {
  auto tensor = variable_.unpack(std::move(node));
  if (torch_compat::lacks_memory(tensor)) {
    throw BackwardError(ErrorText{"arguments and parameters with data, as at the call",
                                  "one whose storage was freed since (resize_storage_())",
                                  "fill it again before the backward"});
  }
  if (storage_._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
      offset_ == tensor.storage_offset() && dtype_ == tensor.scalar_type()) {
    return tensor;
  }
  throw BackwardError(ErrorText{"arguments and parameters whose data is that of the call",
                                "one that was given other data since (set_data(), or module.to())",
                                "run backward before a module is moved"});
}

}  // namespace antegrad::runtime
