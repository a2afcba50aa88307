#pragma once

/// \file
/// Reads and runs libtorch's autograd graph: edges, foreign nodes, leaves that gradients would flow to.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

/// Where the gradient of a tensor arrives. Keeps the node alive.
torch::autograd::Edge gradient_edge(const at::Tensor& tensor);

/// Gives a tensor that has no history one that ends at a node of ours, so that it is no leaf. Returns
/// the edge at which its gradient arrives.
torch::autograd::Edge make_non_leaf(const at::Tensor& tensor);

/// The node that made the tensor or, for a view, what it is a view of; empty for leaves. Weak.
WeakNode weak_function_of(const at::Tensor& tensor);
/// Frees the tensors that the node and its history saved, if it is still there.
void release_saved(const WeakNode& node);

/// Runs the engine from `roots` with these tangents and returns what arrives at `targets`, undefined where
/// nothing does. Frees the graph's saved tensors; accumulates nothing.
std::vector<at::Tensor> run_backward(const std::vector<torch::autograd::Edge>& roots,
                                     const std::vector<at::Tensor>& tangents,
                                     const std::vector<torch::autograd::Edge>& targets);

/// What a walk over the histories of some tensors meets.
struct Reached {
  std::vector<at::Tensor> leaves;                 ///< each once
  std::vector<torch::autograd::Node*> functions;  ///< all other nodes, each once
};
Reached walk(const std::vector<at::Tensor>& tensors);

/// All nodes that the histories of some tensors lead to, accumulators of leaves included.
std::unordered_set<const torch::autograd::Node*> functions_from(
    const std::vector<at::Tensor>& tensors);

/// Whether the backward pass that runs on this thread keeps the graph (retain_graph).
bool backward_retains_graph();
/// Sequence number of the node that the engine evaluates on this thread, nothing outside of a backward pass.
std::optional<uint64_t> evaluated_sequence_number();

/// A hook of antegrad's own on the gradients that arrive at a node. Changes none.
class OwnPreHook : public torch::autograd::FunctionPreHook {};

/// Whether somebody looks at the gradient that arrives at an input of a node while a backward pass runs: a
/// hook that is not an OwnPreHook, retain_grad(), or grad().
bool is_observed(torch::autograd::Node& node, uint32_t input);
/// Whether the backward pass of this thread leaves the node out: only some gradients are asked for, and it leads to none.
bool is_left_out(torch::autograd::Node& node);
/// The nodes that the history of `tensor` leads to, its own left out.
std::vector<torch::autograd::Node*> history_of(const at::Tensor& tensor);
/// The node at which the gradient of a tensor with history arrives, null without one. Never makes one anew.
torch::autograd::Node* function_of(const at::Tensor& tensor);

/// The next number that an autograd node made on this thread will get.
uint64_t next_sequence_number();
/// Whether the node has a lower number: it is older, if the same thread made both.
bool made_before(const torch::autograd::Node& node, uint64_t sequence_number);

/// Keeps other threads' backward passes from exchanging the `.grad` of a leaf; does nothing for other
/// tensors.
class GradientLock {
 public:
  explicit GradientLock(const at::Tensor& tensor);

 private:
  torch::autograd::Edge accumulator_;
  std::unique_lock<std::mutex> lock_;
};

/// The autograd base of a view, the tensor itself otherwise.
at::Tensor base_or_self(const at::Tensor& tensor);
/// `count` elements of a tensor's storage, from element `offset`, in one row; without history.
at::Tensor span_of(const at::Tensor& tensor, int64_t count, int64_t offset);
/// How a view says it was made (no_grad, output of several, ...), copied from one view to another.
void copy_creation(const at::Tensor& from, const at::Tensor& to);
/// Makes a fresh alias of `target`'s memory a view of it (of its base) that was made with grad mode off, or
/// by an autograd::Function, and that has no history yet.
enum class MadeBy : uint8_t { function, no_grad };
void make_view_of(const at::Tensor& target, const at::Tensor& alias, MadeBy made_by);
/// Makes `tensor`, which shows the memory of `base` and never met autograd, a view of it; its history is
/// the base's, seen through as_strided.
at::Tensor as_view(const at::Tensor& base, const at::Tensor& tensor);
/// Whether a view was made with grad mode off; by an autograd::Function.
bool made_without_grad(const at::Tensor& view);
bool made_in_custom_function(const at::Tensor& view);
/// Whether the tensor has a grad_fn; unlike grad_fn() never makes one anew.
bool has_history(const at::Tensor& tensor);
/// Whether a view's history is its base's as it is now, and not older than what was written to that.
bool has_history_of_base(const at::Tensor& view);
/// Whether a view's history does not lead to its base, which has one: it was made, with grad mode on, of a
/// view that was made with grad mode off.
bool has_lost_history(const at::Tensor& view);
/// Whether a view is one of several that an operator made together, whose memory was written since: autograd
/// does not know its history any more.
bool is_written_one_of_several(const at::Tensor& view);

}  // namespace antegrad::torch_compat
