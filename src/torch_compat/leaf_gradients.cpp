#include "torch_compat/leaf_gradients.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>

#include <typeinfo>
#include <unordered_map>

#include "torch_compat/private_member.h"
#include "torch_compat/tensor_state.h"

namespace antegrad::torch_compat {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

using MutexOfNode = MemberTag<struct NodeMutex, std::mutex, Node>;
template struct Expose<MutexOfNode, &Node::mutex_>;

bool accumulates(const Node& node) {
  thread_local std::unordered_map<const std::type_info*, bool> known;
  const auto [at, is_new] = known.try_emplace(&typeid(node));
  if (is_new) at->second = dynamic_cast<const AccumulateGrad*>(&node) != nullptr;
  return at->second;
}

const at::Tensor& leaf_of(const Node& node) {
  return static_cast<const AccumulateGrad&>(node).variable;
}

bool adds_in_place(const Node& node) {
  if (!accumulates(node)) return false;
  const at::Tensor& leaf = leaf_of(node);
  if (!leaf.defined() || !leaf.requires_grad() || !leaf.is_leaf()) return false;
  const at::Tensor& sum = leaf.grad();
  if (!sum.defined() || why_not_plain(leaf) != nullptr || why_not_plain(sum) != nullptr ||
      leaf.is_inference() || sum.is_inference() || sum.requires_grad()) {
    return false;
  }
  const bool has_own_memory =
      sum.storage_offset() == 0 && sum.is_non_overlapping_and_dense() &&
      sum.storage().nbytes() == static_cast<size_t>(sum.numel()) * sum.element_size();
  return has_own_memory && sum.scalar_type() == leaf.scalar_type() &&
         sum.device() == leaf.device() && sum.sizes() == leaf.sizes() &&
         torch::autograd::utils::obeys_layout_contract(sum, leaf);
}

LeafLocks::LeafLocks(const std::vector<Node*>& nodes) {
  size_t waits_for = 0;
  while (!nodes.empty()) {
    locks_.clear();
    locks_.emplace_back(nodes[waits_for]->*expose(MutexOfNode()));
    bool all = true;
    for (size_t i = 0; all && i < nodes.size(); ++i) {
      if (i == waits_for) continue;
      all = locks_.emplace_back(nodes[i]->*expose(MutexOfNode()), std::try_to_lock).owns_lock();
      if (!all) waits_for = i;
    }
    if (all) break;
  }
}

}  // namespace antegrad::torch_compat
