#pragma once

/// \file
/// The `.grad` of leaves, to which the last nodes of a pass add (torch/csrc/autograd/functions/
/// accumulate_grad.h).

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <mutex>
#include <vector>

namespace antegrad::torch_compat {

/// Whether the node adds gradients to the `.grad` of a leaf.
bool accumulates(const torch::autograd::Node& node);
/// The leaf of such a node.
const at::Tensor& leaf_of(const torch::autograd::Node& node);

/// Whether the node adds to a gradient that is there as `gradient += new` does, between dense
/// tensors of one form: so a program may do it in its place. False for gradients that are sparse,
/// part of a larger memory or of an autograd graph, or of other strides than libtorch gives them.
bool adds_in_place(const torch::autograd::Node& node);

/// Holds what such nodes lock while they add. A thread waits for one of these locks only while it
/// has none of the others.
class LeafLocks {
 public:
  explicit LeafLocks(const std::vector<torch::autograd::Node*>& nodes);
  LeafLocks(const LeafLocks&) = delete;
  LeafLocks& operator=(const LeafLocks&) = delete;
  void unlock() { locks_.clear(); }

 private:
  std::vector<std::unique_lock<std::mutex>> locks_;
};

}  // namespace antegrad::torch_compat
