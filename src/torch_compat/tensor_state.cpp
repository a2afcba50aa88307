#include "torch_compat/tensor_state.h"

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {
struct TensorAutogradMeta
    : MemberTag<std::unique_ptr<c10::AutogradMetaInterface>, c10::TensorImpl> {
  friend constexpr Member expose(TensorAutogradMeta);
};
template struct Expose<TensorAutogradMeta, &c10::TensorImpl::autograd_meta_>;

constinit const AutogradMetaMember autograd_meta_member = expose(TensorAutogradMeta());

}  // namespace antegrad::torch_compat
