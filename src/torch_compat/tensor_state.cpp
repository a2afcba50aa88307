#include "torch_compat/tensor_state.h"

#include "torch_compat/private_member.h"

namespace antegrad::torch_compat {
using TensorAutogradMeta = MemberTag<struct OfTensorAutogradMeta,
                                     std::unique_ptr<c10::AutogradMetaInterface>, c10::TensorImpl>;
template struct Expose<TensorAutogradMeta, &c10::TensorImpl::autograd_meta_>;

constinit const AutogradMetaMember autograd_meta_member = expose(TensorAutogradMeta());

}  // namespace antegrad::torch_compat
