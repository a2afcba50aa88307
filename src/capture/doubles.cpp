#include "capture/doubles.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorOptions.h>

#include <unordered_map>

#include "torch_compat/autograd_graph.h"
#include "torch_compat/storage_state.h"
#include "torch_compat/tensor_metadata.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::capture {
namespace {

class Doubler {
 public:
  at::Tensor double_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return tensor;
    auto& made = doubles_[tensor.unsafeGetTensorImpl()];
    if (!made.defined()) made = make(tensor);
    return made;
  }

 private:
  at::Tensor make(const at::Tensor& tensor) {
    const c10::InferenceMode mode(tensor.is_inference());
    if (tensor.is_view()) {
      const at::AutoGradMode grad_mode(true);
      auto view = torch_compat::view_without_memory(double_of(torch_compat::base_or_self(tensor)),
                                                    tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
      torch_compat::copy_creation(tensor, view);
      give_history(tensor, view);
      return view;
    }
    auto made = at::detail::make_tensor<c10::TensorImpl>(storage_of_double(tensor.storage()),
                                                         tensor.key_set(), tensor.dtype());
    auto* impl = made.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    for (const auto& [other, its_double] : doubles_) {
      if (!its_double.defined()) continue;
      if (!torch_compat::same_version_counter(*other, *tensor.unsafeGetTensorImpl())) continue;
      impl->set_version_counter(its_double.unsafeGetTensorImpl()->version_counter());
    }
    give_history(tensor, made);
    return made;
  }

  static void give_history(const at::Tensor& tensor, const at::Tensor& made) {
    if (!tensor.requires_grad() || made.requires_grad()) return;
    if (tensor.is_leaf()) {
      made.set_requires_grad(true);
    } else {
      torch_compat::make_non_leaf(made);
    }
  }

  c10::Storage storage_of_double(const c10::Storage& storage) {
    auto& made = storages_[storage.unsafeGetStorageImpl()];
    if (!made) made = torch_compat::memory_without_data(storage.nbytes(), storage.device());
    return made;
  }

  std::unordered_map<const c10::TensorImpl*, at::Tensor> doubles_;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

}  // namespace

std::vector<at::Tensor> doubles_of(const std::vector<at::Tensor>& tensors) {
  Doubler doubler;
  std::vector<at::Tensor> doubles;
  for (const auto& tensor : tensors) doubles.push_back(doubler.double_of(tensor));
  return doubles;
}

at::Tensor double_like(const TensorMeta& meta) {
  return torch_compat::without_data(torch_compat::TensorMetadata::of(meta));
}

}  // namespace antegrad::capture
