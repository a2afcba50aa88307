#pragma once

/// \file
/// Gradients that a compiled region or a checkpointed block cannot give: those of a result from
/// which other results were computed.
///
/// A region is one autograd node. If result `loss` was computed from result `h` inside, the path
/// between them is not in the autograd graph. The gradient of `h` (by grad(), a hook,
/// retain_grad()) would contain only the part from outside, so asking for it is an error.

#include <cstdint>
#include <utility>
#include <vector>

#include "torch_compat/autograd_graph.h"

namespace antegrad::runtime {

/// A result from which others were computed, with what is needed to check it in the backward.
struct InnerResult {
  torch_compat::WeakNode node;  ///< its grad_fn
  uint32_t output;              ///< output of that node
  int32_t tangent;              ///< of the region; -1 for a view made outside
};

/// Throws the BackwardError of such a question.
[[noreturn]] void refuse_inner_gradient();

/// Runs first when gradients arrive at the region's node. Throws BackwardError if someone observes
/// the gradient of an inner result while the gradient of another result is defined.
class InnerGradientCheck final : public torch_compat::OwnPreHook {
 public:
  explicit InnerGradientCheck(std::vector<InnerResult> inner) : inner_(std::move(inner)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& tangents) override;

 private:
  std::vector<InnerResult> inner_;
};

/// Runs when a gradient arrives at an argument that is a view, if the region wrote it and computed
/// results from it. In eager, gradients of these results pass through the view; in a region they
/// pass directly to its base. Throws BackwardError if a backward pass wants only the view's
/// gradient, and therefore does not reach the region.
class WrittenViewCheck final : public torch_compat::OwnPreHook {
 public:
  WrittenViewCheck(const torch_compat::NodePtr& region, const torch::autograd::Edge& view)
      : region_(region), view_(view.function), output_(view.input_nr) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override;

 private:
  torch_compat::WeakNode region_, view_;
  uint32_t output_;
};

}  // namespace antegrad::runtime
