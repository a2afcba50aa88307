#include "check/clone_arguments.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <unordered_map>

#include "torch_compat/storage_state.h"

namespace antegrad::check {
namespace {

// Passes gradients through, from a copy that must not be a leaf to its leaf.
struct Identity final : torch::autograd::Node {
  explicit Identity(torch::autograd::edge_list&& next) : Node(std::move(next)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

class Cloner {
 public:
  explicit Cloner(const std::unordered_set<const c10::StorageImpl*>& keep) : keep_(keep) {}

  at::Tensor clone(const at::Tensor& tensor, const std::string& name) {
    if (!tensor.defined() || keep_.contains(tensor.storage().unsafeGetStorageImpl())) {
      return tensor;
    }
    const auto known = clones_.find(tensor.unsafeGetTensorImpl());
    if (known != clones_.end()) return known->second;
    auto copy = has_base(tensor) ? view(tensor, name) : plain(tensor, name);
    clones_.emplace(tensor.unsafeGetTensorImpl(), copy);
    return copy;
  }

  std::vector<NamedTensor> targets;

 private:
  static bool has_base(const at::Tensor& tensor) {
    return tensor.is_view() && tensor._base().scalar_type() == tensor.scalar_type();
  }

  // A tensor over the copied storage that is not a view.
  at::Tensor alias(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    const auto& storage = tensor.storage();
    auto& copy = storages_[storage.unsafeGetStorageImpl()];
    if (!copy.defined()) copy = torch_compat::bytes_of(storage).clone();
    if (storage.nbytes() == 0) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      auto made = at::empty({0}, tensor.options().requires_grad(false)).set_(copy.storage());
      return torch_compat::span_without_memory(made, tensor.sizes(), tensor.strides(),
                                               tensor.storage_offset());
    }
    return at::empty({0}, tensor.options().requires_grad(false))
        .set_(copy.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

  at::Tensor plain(const at::Tensor& tensor, const std::string& name) {
    auto copy = alias(tensor);
    if (!tensor.requires_grad()) return copy;
    if (tensor.is_leaf()) return target(std::move(copy), name);
    const auto leaf = target(alias(tensor), name);
    const auto [owner, node] = torch_compat::make_node<Identity>(
        torch::autograd::edge_list{torch::autograd::impl::gradient_edge(leaf)});
    torch::autograd::set_history(copy, owner);
    return copy;
  }

  at::Tensor view(const at::Tensor& tensor, const std::string& name) {
    const auto base = clone(at::Tensor(tensor._base()), "what " + name + " is a view of");
    const at::AutoGradMode history(tensor.requires_grad() && base.requires_grad());
    auto copy = torch_compat::view_without_memory(base, tensor.sizes(), tensor.strides(),
                                                  tensor.storage_offset());
    return tensor.requires_grad() && !copy.requires_grad() ? target(std::move(copy), name) : copy;
  }

  at::Tensor target(at::Tensor leaf, const std::string& name) {
    leaf.set_requires_grad(true);
    targets.push_back({name, leaf});
    return leaf;
  }

  const std::unordered_set<const c10::StorageImpl*>& keep_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> clones_;
  std::unordered_map<const c10::StorageImpl*, at::Tensor> storages_;  // bytes
};

}  // namespace

ClonedArguments clone_arguments(const std::vector<at::Tensor>& arguments,
                                const std::unordered_set<const c10::StorageImpl*>& keep) {
  Cloner cloner(keep);
  ClonedArguments cloned;
  for (size_t i = 0; i < arguments.size(); ++i) {
    cloned.leaves.push_back(cloner.clone(arguments[i], "argument " + std::to_string(i)));
  }
  cloned.targets = std::move(cloner.targets);
  return cloned;
}

}  // namespace antegrad::check
