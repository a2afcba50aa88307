#pragma once

/// \file
/// Gradients that a compiled region, or a checkpointed block, does not give: those of a result that
/// other results were computed from.
///
/// A region is one autograd node. Where result `loss` was computed from result `h` inside, the path
/// from one to the other is not in the autograd graph, and whoever asks for the gradient of `h`
/// (grad(), a hook, retain_grad()) would get the part that comes from outside only. Such a question
/// is an error.

#include <cstdint>
#include <utility>
#include <vector>

#include "torch_compat/autograd_graph.h"

namespace antegrad::runtime {

/// A tensor handed out from whose history others lead through: what to look at when backward
/// arrives.
struct InnerResult {
  torch_compat::WeakNode node;  ///< its grad_fn
  uint32_t output;              ///< of that node
  int32_t tangent;              ///< of the region, -1 for a view that is made outside
};

/// Runs before anything else when gradients arrive at the region's node. Throws BackwardError when
/// someone observes the gradient of an inner result while another result's is defined.
class InnerGradientCheck final : public torch_compat::OwnPreHook {
 public:
  explicit InnerGradientCheck(std::vector<InnerResult> inner) : inner_(std::move(inner)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& tangents) override;

 private:
  std::vector<InnerResult> inner_;
};

/// Runs when a gradient arrives at an argument that is a view, that the region wrote and computed
/// results from. In eager they lead through the view, from the region past it to what it is a view
/// of: a backward pass that asks for no more than the view's gradient does not come by the region.
/// Throws BackwardError then.
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
