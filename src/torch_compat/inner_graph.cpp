#include "torch_compat/inner_graph.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

#include "torch_compat/scope.h"

namespace antegrad::torch_compat {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

GraphMark GraphMark::now() {
  return {at::RecordFunction::currentThreadId(), at::sequence_number::peek()};
}

bool GraphMark::is_before(const Node& node) const {
  // Accumulators have the highest number, so that the engine runs them first.
  return node.thread_id() == thread && node.sequence_nr() >= sequence &&
         node.sequence_nr() != std::numeric_limits<uint64_t>::max();
}

namespace {

struct LeafCast {
  AccumulateGrad* leaf;
  c10::ScalarType dtype;
};

std::optional<LeafCast> leaf_cast(const Node& node) {
  if (node.num_outputs() != 1 || node.num_inputs() != 1) return std::nullopt;
  auto* leaf = dynamic_cast<AccumulateGrad*>(node.next_edge(0).function.get());
  if (leaf == nullptr || node.name() != "ToCopyBackward0") return std::nullopt;
  return LeafCast{leaf, node.input_metadata(0).dtype().toScalarType()};
}

// The shared cast that the node is, or represents.
NodePtr shared(const Node& node, const SharedCasts& casts) {
  if (casts.empty()) return {};
  const auto cast = leaf_cast(node);
  if (!cast) return {};
  const auto it = casts.find({cast->leaf, cast->dtype});
  return it == casts.end() ? NodePtr() : it->second;
}

// All nodes inside that the roots lead to.
template <class IsInside>
std::vector<Node*> nodes_inside(const std::vector<Edge>& roots, const IsInside& is_inside) {
  std::vector<Node*> inside;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](Node* node) {
    if (node != nullptr && is_inside(*node) && seen.insert(node).second) inside.push_back(node);
  };
  for (const auto& root : roots) visit(root.function.get());
  for (size_t i = 0; i < inside.size(); ++i) {
    for (const auto& edge : inside[i]->next_edges()) visit(edge.function.get());
  }
  return inside;
}

// The end of a gradient that leaves the inner graph. Checked against the metadata that the true
// target expects.
class Sink final : public Node {
 public:
  explicit Sink(const torch::autograd::InputMetadata& expected) {
    input_metadata_.push_back(expected);
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override {
    return {};
  }
  std::string name() const override { return "AntegradSink"; }
};

// Redirects the outgoing edges for its lifetime.
class Rerouted : Scope {
 public:
  explicit Rerouted(const std::vector<LeavingEdge>& edges) : edges_(edges) {
    for (const auto& edge : edges_) before_.push_back(edge.node->next_edge(edge.output));
  }
  // Not set_next_edge(), which refuses nodes that others lead to, since it is meant for growing
  // graphs.
  void reroute(size_t i, Edge target) { edge_at(i) = std::move(target); }
  ~Rerouted() {
    for (size_t i = 0; i < edges_.size(); ++i) edge_at(i) = std::move(before_[i]);
  }

 private:
  Edge& edge_at(size_t i) { return edges_[i].node->next_edges()[edges_[i].output]; }

  const std::vector<LeavingEdge>& edges_;
  std::vector<Edge> before_;
};

}  // namespace

std::vector<bool> are_inner(const std::vector<Edge>& roots, const GraphMark& mark) {
  std::vector<bool> inner(roots.size());
  for (const auto* node :
       nodes_inside(roots, [&](const Node& node) { return mark.is_before(node); })) {
    for (const auto& edge : node->next_edges()) {
      for (size_t i = 0; i < roots.size(); ++i) inner[i] = inner[i] || roots[i] == edge;
    }
  }
  return inner;
}

std::vector<LeavingEdge> leaving_edges(const std::vector<Edge>& roots, const GraphMark& mark,
                                       const SharedCasts& casts) {
  auto inside = nodes_inside(
      roots, [&](const Node& node) { return mark.is_before(node) && !shared(node, casts); });
  const std::unordered_set<const Node*> seen(inside.begin(), inside.end());
  // The engine runs the youngest ready node first. A node is younger than those it depends on.
  std::sort(inside.begin(), inside.end(),
            [](const Node* a, const Node* b) { return a->sequence_nr() > b->sequence_nr(); });
  std::vector<LeavingEdge> leaving;
  for (auto* node : inside) {
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      const auto& edge = node->next_edge(i);
      if (!edge.is_valid() || seen.contains(edge.function.get())) continue;
      auto cast = shared(*edge.function, casts);
      leaving.push_back({node, i, cast ? Edge(std::move(cast), edge.input_nr) : edge});
    }
  }
  return leaving;
}

bool leads_to_leaf(const Edge& edge) {
  return dynamic_cast<const AccumulateGrad*>(edge.function.get()) != nullptr;
}

bool leads_to_unseen_leaf(const Edge& edge) {
  const auto* leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get());
  return leaf != nullptr && leaf->variable.use_count() == 1;
}

SharedCasts shared_casts(const std::vector<LeavingEdge>& edges) {
  SharedCasts casts;
  if (!at::autocast::is_autocast_cache_enabled()) return casts;
  const auto add = [&](Node& node) {
    const auto cast = leaf_cast(node);
    if (!cast) return;
    const auto& leaf = cast->leaf->variable;
    const auto device = leaf.device().type();
    if ((device != at::kCPU && device != at::kCUDA) || !at::autocast::is_autocast_enabled(device) ||
        at::autocast::get_autocast_dtype(device) != cast->dtype ||
        leaf.scalar_type() != at::kFloat || leaf.is_view()) {
      return;
    }
    // The cache can only be queried by using it.
    const auto cached = at::autocast::cached_cast(cast->dtype, leaf, device);
    const auto& function = cached.grad_fn();
    if (function.get() == &node) casts[{cast->leaf, cast->dtype}] = function;
  };
  for (const auto& edge : edges) {
    add(*edge.node);
    add(*edge.target.function);
  }
  return casts;
}

std::vector<at::Tensor> run(const InnerRun& inner) {
  std::vector<Edge> sinks(inner.wanted.size());
  Rerouted rerouted(inner.leaving);
  for (size_t i = 0; i < inner.leaving.size(); ++i) {
    if (inner.slots[i] == kNoSlot) continue;
    const auto& target = inner.leaving[i].target;
    auto& sink = sinks[inner.slots[i]];
    if (!sink.is_valid()) {
      sink = Edge(make_node<Sink>(target.function->input_metadata(target.input_nr)).first, 0);
    }
    rerouted.reroute(i, sink);
  }
  std::vector<Edge> targets;
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < sinks.size(); ++slot) {
    if (!inner.wanted[slot] || !sinks[slot].is_valid()) continue;
    targets.push_back(sinks[slot]);
    slots.push_back(slot);
  }
  std::vector<at::Tensor> gradients(inner.wanted.size());
  if (targets.empty()) return gradients;
  auto arrived = torch::autograd::Engine::get_default_engine().execute(
      inner.roots, inner.tangents, /*keep_graph=*/inner.create_graph, inner.create_graph,
      /*accumulate_grad=*/false, targets);
  for (size_t i = 0; i < slots.size(); ++i) gradients[slots[i]] = std::move(arrived[i]);
  return gradients;
}

at::Tensor without_history(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

void set_history(const at::Tensor& tensor, const NodePtr& node) {
  const auto input = node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, Edge(node, input));
}

}  // namespace antegrad::torch_compat
