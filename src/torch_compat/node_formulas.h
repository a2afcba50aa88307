#pragma once

/// \file
/// What the nodes of a backward pass compute, as functions of gradients and saved tensors.
///
/// libtorch's nodes show what they hold to a visitor (torch/csrc/dynamo/compiled_autograd.h). Here
/// it collects, on each pass, what they saved and a key of the rest; and, when a pass is compiled,
/// the formulas. A formula reads its saved tensors from a list, so it can be captured with
/// stand-ins, and what was captured holds for other passes with the same key.

#include <ATen/core/Scalar.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_compat/backward_pass.h"
#include "torch_compat/leaf_gradients.h"

namespace antegrad::torch_compat {

/// By NodeFormula::numbers: what takes the place of the number that the node holds, if anything.
using OtherNumbers = std::vector<std::optional<at::Scalar>>;

/// What a node computes: gradients for its edges from those that arrive at its inputs. `saved` are
/// all tensors of the pass, of which it reads `reads`. `numbers` may be shorter than those it
/// holds.
struct NodeFormula {
  std::vector<int32_t> reads;
  /// That the node holds, in the order of the formula's arguments: each a double or an int64.
  std::vector<at::Scalar> numbers;
  std::function<torch::autograd::variable_list(const torch::autograd::variable_list& gradients,
                                               const std::vector<at::Tensor>& saved,
                                               const OtherNumbers& numbers)>
      call;
};

/// Thread-local state and the graph of the pass must be those of the pass.
class VisitedNodes {
 public:
  /// Unpacks saved tensors, and so throws what libtorch throws for one that was changed or freed.
  /// Hooks of saved tensors do not run.
  explicit VisitedNodes(const BackwardPass& pass);
  ~VisitedNodes();
  VisitedNodes(const VisitedNodes&) = delete;
  VisitedNodes& operator=(const VisitedNodes&) = delete;

  /// Equal for passes whose nodes differ in saved tensors and objects of hooks alone.
  const std::string& key() const { return key_; }
  /// Where in the key the node at this place says what it holds besides tensors: begin and end.
  std::pair<size_t, size_t> in_key(int32_t place) const { return in_key_[place]; }
  /// And its sizes, with indices that may be symbolic: an int64 each.
  std::pair<size_t, size_t> in_sizes(int32_t place) const {
    const auto& [first, behind] = sizes_of_[place];
    return {sizes_in_key_ + first * sizeof(int64_t), sizes_in_key_ + behind * sizeof(int64_t)};
  }
  /// Saved by nodes with formulas, each once.
  std::vector<at::Tensor>& saved();
  /// By saved tensor: the version of its data now.
  std::vector<int64_t> versions() const;

  /// The formula of the node at this place; nothing for one that has to run itself: accumulators
  /// of leaves, custom functions, nodes with hooks on saved tensors, and others that show nothing.
  std::unique_ptr<NodeFormula> formula(int32_t place);

 private:
  struct Visit;
  void visit(int32_t place);
  std::unique_ptr<NodeFormula> formula_of_ours(int32_t place, const std::vector<int32_t>& saved_by);

  const BackwardPass& pass_;
  std::unique_ptr<Visit> visit_;
  std::string key_;
  std::vector<std::pair<size_t, size_t>> in_key_;    // by place
  std::vector<std::pair<size_t, size_t>> sizes_of_;  // by place, among all sizes
  size_t sizes_in_key_ = 0;                          // where these begin
};

/// Whether the node is that of a compiled region.
bool is_region(const torch::autograd::Node& node);
/// Whether functions of users run before the node: hooks on tensors, and on the node.
bool has_hooks_before(torch::autograd::Node& node);
/// After it: hooks on the node, and on leaves whose gradient was accumulated.
bool has_hooks_after(torch::autograd::Node& node);
/// Calls the hooks on tensors whose gradients arrive at a node; and those before the node, which
/// run only if the node runs.
torch::autograd::variable_list call_tensor_hooks(torch::autograd::Node& node,
                                                 torch::autograd::variable_list gradients);
torch::autograd::variable_list call_node_hooks(torch::autograd::Node& node,
                                               torch::autograd::variable_list gradients);

/// Checks gradients and gives them the form that edges ask for, as the engine does.
void check_gradients(const torch::autograd::Node& node, torch::autograd::variable_list& gradients);

}  // namespace antegrad::torch_compat
