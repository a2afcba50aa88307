#pragma once

/// \file
/// Nodes of antegrad that show compiled backward what they compute.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <string>
#include <vector>

#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

/// Thrown by a formula inside a capture for a form of gradients that must be captured first, which
/// no capture can do inside another. After `prepare()`, outside, the formula knows the form.
struct UnpreparedFormula {
  std::function<void()> prepare;
};

class FormulaNode : public OwnNode {
 public:
  using OwnNode::OwnNode;

  /// By output of the node: gradients from those that arrive and from what it saved.
  using Formula = std::function<torch::autograd::variable_list(
      const torch::autograd::variable_list& gradients, const std::vector<at::Tensor>& saved)>;

  /// Whether it has a formula. If so, appends what the formula depends on to `key`, and adds the
  /// tensors that it reads. Throws what it would throw when it runs, if one was changed or freed.
  virtual bool show(std::string& key, std::vector<at::Tensor>& saved) = 0;
  /// Of a node that was shown: by output, whether a gradient is wanted. The formula outlives the
  /// node.
  virtual Formula formula(std::vector<bool> wanted) = 0;
};

}  // namespace antegrad::torch_compat
