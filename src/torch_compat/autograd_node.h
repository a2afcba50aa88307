#pragma once

/// \file
/// Ownership of autograd nodes: by `shared_ptr` up to torch 2.11, by `intrusive_ptr` since 2.13.

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <torch/version.h>

#include <memory>
#include <utility>

namespace antegrad::torch_compat {

/// An owning pointer to torch::autograd::Node, of the kind that this libtorch uses.
using NodePtr = decltype(torch::autograd::Edge::function);

/// Does not keep the node alive.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
using WeakNode = c10::weak_intrusive_ptr<torch::autograd::Node>;
#else
using WeakNode = std::weak_ptr<torch::autograd::Node>;
#endif

/// Makes a node of type T. Returns the owning pointer and the typed address.
template <class T, class... Args>
std::pair<NodePtr, T*> make_node(Args&&... args) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
  auto node = c10::make_intrusive<T>(std::forward<Args>(args)...);
  auto* address = node.get();
  return {NodePtr(std::move(node)), address};
#else
  auto* node = new T(std::forward<Args>(args)...);
  // deleteNode frees long chains of nodes without recursion.
  return {NodePtr(static_cast<torch::autograd::Node*>(node), torch::autograd::deleteNode), node};
#endif
}

/// A node of antegrad. Its edges may be replaced once it is part of a graph.
class OwnNode : public torch::autograd::Node {
 public:
  using torch::autograd::Node::Node;

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 13)
  void release_resources() override {
    let_go();
    torch::autograd::Node::release_resources();
  }
#endif

 protected:
  /// Called when the last owner has gone. The object may live on while others refer to it weakly,
  /// so it must let go of what it holds.
  virtual void let_go() noexcept {}
  /// The new edges must not lead back to this node. Engines must not run it meanwhile, or be on
  /// their way to it. Its place among nodes (topological_nr) stays: what a pass asks for lies above
  /// it, or below all new edges.
  void redirect(torch::autograd::edge_list&& edges) { next_edges_ = std::move(edges); }
};

}  // namespace antegrad::torch_compat
