#pragma once

/// \file
/// The part of libtorch's autograd graph that a stretch of eager code adds: where it ends, and how
/// to run it separately.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "torch_compat/autocast.h"
#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

/// A moment in the sequence of nodes made by one thread. Numbers of other threads are unrelated.
struct GraphMark {
  uint64_t thread;
  uint64_t sequence;

  static GraphMark now();
  /// Whether the marking thread made the node after this moment. Always false for the accumulator
  /// of a leaf.
  bool is_before(const torch::autograd::Node& node) const;
};

/// Nodes of autocast's cached casts of a parameter, by the parameter's accumulator and the dtype
/// of the cast. Autocast returns them to all users of the parameter. They count as outside of all
/// stretches, because it is chance which stretch needs a cast first.
using SharedCasts = std::map<std::pair<const torch::autograd::Node*, c10::ScalarType>, NodePtr>;

/// An edge from a node of the stretch to one outside.
struct LeavingEdge {
  torch::autograd::Node* node;
  size_t output;
  /// if the edge leads to a cast that duplicates a shared one: the shared one
  torch::autograd::Edge target;
};

/// The edges that leave the nodes which were made since `mark` and are reachable from `roots`, in
/// the order in which the engine would send gradients along them.
std::vector<LeavingEdge> leaving_edges(const std::vector<torch::autograd::Edge>& roots,
                                       const GraphMark& mark, const SharedCasts& casts);

/// Whether the edge leads to a leaf.
bool leads_to_leaf(const torch::autograd::Edge& edge);
/// Whether it leads to a leaf held by the accumulator alone: nobody can ask for its gradient.
bool leads_to_unseen_leaf(const torch::autograd::Edge& edge);

/// The casts at both ends of these edges that autocast would return again. Call it under the
/// autocast state in which the edges were made.
SharedCasts shared_casts(const std::vector<LeavingEdge>& edges);

/// By root: whether another root was computed from it.
std::vector<bool> are_inner(const std::vector<torch::autograd::Edge>& roots, const GraphMark& mark);

constexpr size_t kNoSlot = static_cast<size_t>(-1);

/// Runs the engine from `roots` and returns what arrives at the leaving edges, summed by slot.
/// Nothing is visible outside: no accumulation, no hook. Slots that are not wanted stay undefined.
struct InnerRun {
  std::vector<torch::autograd::Edge> roots;
  std::vector<at::Tensor> tangents;
  std::vector<LeavingEdge> leaving;
  std::vector<size_t> slots;  ///< by leaving edge; kNoSlot: the gradient is not wanted
  std::vector<bool> wanted;   ///< by slot
  bool create_graph;          ///< also keeps the graph
};
std::vector<at::Tensor> run(const InnerRun& inner);

/// The memory of a tensor under a new tensor without history. They share a version counter.
at::Tensor without_history(const at::Tensor& tensor);
/// Makes the node the producer of the tensor.
void set_history(const at::Tensor& tensor, const NodePtr& node);

}  // namespace antegrad::torch_compat
