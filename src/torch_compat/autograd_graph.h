#pragma once

/// \file
/// Reads and runs libtorch's autograd graph: edges, foreign nodes, leaves that gradients would
/// flow to.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

/// Where the gradient of a tensor arrives. Keeps the node alive.
torch::autograd::Edge gradient_edge(const at::Tensor& tensor);

/// Gives a tensor without history a history that ends at a node of ours, so that it is not a leaf.
/// Returns the edge at which its gradient arrives.
torch::autograd::Edge make_non_leaf(const at::Tensor& tensor);

/// The node that produced the tensor or, for a view, its base. Empty for leaves. Weak.
WeakNode weak_function_of(const at::Tensor& tensor);
/// Frees the tensors that the node and its history saved, if it still exists.
void release_saved(const WeakNode& node);

struct PassOptions {
  bool keep_graph = false;  ///< otherwise frees what the graph saved
  bool create_graph = false;
};
/// Runs the engine from `roots` with these tangents and returns what arrives at `targets`,
/// undefined if nothing does. Accumulates nothing.
std::vector<at::Tensor> run_backward(const std::vector<torch::autograd::Edge>& roots,
                                     const std::vector<at::Tensor>& tangents,
                                     const std::vector<torch::autograd::Edge>& targets,
                                     const PassOptions& options = {});

/// What a walk over the histories of some tensors reaches.
struct Reached {
  std::vector<at::Tensor> leaves;                 ///< each once
  std::vector<torch::autograd::Node*> functions;  ///< all other nodes, each once
};
Reached walk(const std::vector<at::Tensor>& tensors);

/// All nodes reachable from the histories of some tensors, including the accumulators of leaves.
std::unordered_set<const torch::autograd::Node*> functions_from(
    const std::vector<at::Tensor>& tensors);

/// Calls a function when the backward pass on this thread has ended, unless it fails.
void when_backward_ends(std::function<void()> function);
/// Whether the backward pass on this thread keeps the graph (retain_graph).
bool backward_retains_graph();
/// Sequence number of the node that the engine is evaluating on this thread; nothing outside of a
/// backward pass.
std::optional<uint64_t> evaluated_sequence_number();

/// A hook of antegrad itself on the gradients that arrive at a node. Changes none.
class OwnPreHook : public torch::autograd::FunctionPreHook {};

/// Whether the gradient that arrives at an input of a node is observed during a backward pass: by
/// a hook that is not an OwnPreHook, retain_grad(), or grad().
bool is_observed(torch::autograd::Node& node, uint32_t input);
/// Whether the backward pass of this thread skips the node: only some gradients are wanted, and it
/// leads to none of them.
bool is_left_out(torch::autograd::Node& node);
/// The nodes that the history of `tensor` leads to, without its own.
std::vector<torch::autograd::Node*> history_of(const at::Tensor& tensor);
/// The node at which the gradient of a tensor with history arrives; null without one. Never
/// creates one.
torch::autograd::Node* function_of(const at::Tensor& tensor);

/// The sequence number of the next autograd node made on this thread.
uint64_t next_sequence_number();
/// Whether the node has a lower number. If the same thread made both, it is older.
bool made_before(const torch::autograd::Node& node, uint64_t sequence_number);

/// Keeps backward passes of other threads from replacing the `.grad` of a leaf. Does nothing for
/// other tensors.
class GradientLock {
 public:
  explicit GradientLock(const at::Tensor& tensor);

 private:
  torch::autograd::Edge accumulator_;
  std::unique_lock<std::mutex> lock_;
};

/// The autograd base of a view; otherwise the tensor itself.
at::Tensor base_or_self(const at::Tensor& tensor);
/// `count` consecutive elements of a tensor's storage, from element `offset`, without history.
at::Tensor span_of(const at::Tensor& tensor, int64_t count, int64_t offset);
/// How autograd says a view was created (no_grad, one of several outputs, ...), copied from one
/// view to another.
void copy_creation(const at::Tensor& from, const at::Tensor& to);
/// Makes a fresh alias of `target`'s memory a view of it (of its base) that was created with grad
/// mode off, or by an autograd::Function, and that has no history yet.
enum class MadeBy : uint8_t { function, no_grad };
void make_view_of(const at::Tensor& target, const at::Tensor& alias, MadeBy made_by);
/// Makes `tensor`, which shares the memory of `base` and has no autograd metadata, a view of it.
/// Its history is the base's, seen through as_strided.
at::Tensor as_view(const at::Tensor& base, const at::Tensor& tensor);
/// Whether a view was created with grad mode off; by an autograd::Function.
bool made_without_grad(const at::Tensor& view);
bool made_in_custom_function(const at::Tensor& view);
/// Whether the tensor has a grad_fn. Unlike grad_fn() it never creates one.
bool has_history(const at::Tensor& tensor);
/// Whether a view's history is its base's current one, not older than the last write to the base.
bool has_history_of_base(const at::Tensor& view);
/// Whether a view's history does not lead to its base, which has one: it was made, with grad mode
/// on, from a view made with grad mode off.
bool has_lost_history(const at::Tensor& view);
/// Whether a view is one of several outputs of an operator whose memory was written afterwards, so
/// that autograd no longer knows its history.
bool is_written_one_of_several(const at::Tensor& view);

}  // namespace antegrad::torch_compat
