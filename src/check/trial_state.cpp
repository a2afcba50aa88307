#include "check/trial_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "torch_compat/generator_state.h"
#include "torch_compat/storage_state.h"

namespace antegrad::check {

TrialState::TrialState(const std::vector<NamedTensor>& tensors,
                       const std::vector<NamedGenerator>& generators) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const c10::TensorImpl*> seen;
  std::unordered_set<const c10::StorageImpl*> seen_storages;
  for (const auto& [name, tensor] : tensors) {
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    auto& saved = tensors_.emplace_back();
    saved.tensor = tensor;
    saved.metadata = torch_compat::TensorMetadata::of(tensor);
    if (!tensor.is_inference()) saved.version = tensor._version();
    saved.requires_grad = tensor.is_leaf() && tensor.requires_grad();
    saved.grad_fn = tensor.grad_fn();
    saved.output_nr = tensor.output_nr();
    if (!seen_storages.insert(tensor.storage().unsafeGetStorageImpl()).second) continue;
    auto bytes = torch_compat::bytes_of(tensor.storage());
    auto copy = bytes.clone();
    storages_.push_back({std::move(bytes), std::move(copy)});
  }
  for (const auto& [name, generator] : generators) {
    generators_.push_back({generator, torch_compat::state_of(generator)});
  }
}

void TrialState::restore() const {
  const at::NoGradGuard no_grad;
  for (const auto& [bytes, copy] : storages_) {
    auto& storage = *bytes.storage().unsafeGetStorageImpl();
    if (copy.nbytes() == 0) {
      if (storage.nbytes() != 0) torch_compat::free_memory(storage);
      continue;
    }
    if (storage.nbytes() == 0) torch_compat::allocate_memory(storage, copy.nbytes());
    if (!at::equal(bytes, copy)) bytes.copy_(copy);
  }
  for (const auto& saved : tensors_) {
    const auto& tensor = saved.tensor;
    if (const auto& then = saved.metadata; !then.matches(tensor)) {
      tensor.unsafeGetTensorImpl()->set_sizes_and_strides(then.sizes, then.strides, then.offset);
    }
    if (tensor.grad_fn() != saved.grad_fn) {
      torch::autograd::impl::set_gradient_edge(tensor, {saved.grad_fn, saved.output_nr});
    }
    if (!saved.grad_fn && tensor.requires_grad() != saved.requires_grad) {
      tensor.set_requires_grad(saved.requires_grad);
    }
    if (!tensor.is_inference() && tensor._version() != saved.version) {
      auto version = torch::autograd::impl::version_counter(tensor);  // shares the counter
      version.set_version(saved.version);
    }
  }
  for (const auto& [generator, state] : generators_) torch_compat::put_back(generator, state);
}

}  // namespace antegrad::check
