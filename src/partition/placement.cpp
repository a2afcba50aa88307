#include "partition/placement.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <antegrad/error.h>

#include "graph/analysis.h"
#include "graph/text.h"
#include "partition/dependence.h"

namespace antegrad {
namespace {

bool is_token_output(const Output& output) {
  return output.kind == OutputKind::generator_token || output.kind == OutputKind::effect_token;
}

class Placer {
 public:
  Placer(const Graph& joint, IdMap<ValueId, bool> saved, bool planned)
      : joint_(joint), planned_(planned), saved_(std::move(saved)) {
    saved_.resize(joint_.values.size(), false);
    placement_.generator_of = generators_of_tokens(joint_);
    placement_.producer = producers(joint_);
  }

  Placement place() {
    mark_forward_side();
    mark_backward_needs();
    collect_saved();
    mark_forward_nodes();
    return std::move(placement_);
  }

 private:
  const Node* producer(ValueId id) const {
    const int32_t position = placement_.producer[id];
    return position < 0 ? nullptr : &joint_.nodes[position];
  }

  bool on_forward_side(int32_t node) const { return placement_.forward_side[node]; }

  /// Whether a node must run: an output of it is needed, or it has side effects.
  bool must_run(int32_t position, const IdMap<ValueId, bool>& needed) const {
    const Node& node = joint_.nodes[position];
    return node.op.traits().has_side_effects() || any_marked(node.outputs, needed);
  }

  /// The last token of the forward in the chain that ends in `token`.
  ValueId token_at_boundary(ValueId token) const {
    while (const Node* node = producer(token)) {
      if (on_forward_side(placement_.producer[token])) break;
      const auto output = std::find(node->outputs.begin(), node->outputs.end(), token);
      const auto from_end = std::distance(output, node->outputs.end());
      token = node->inputs[node->inputs.size() - from_end];
    }
    return token;
  }

  /// Nodes that results need belong to the forward, in whichever phase they were captured: a
  /// function may compute gradients inside.
  void mark_forward_side() {
    std::vector<bool> bound;
    if (planned_) bound = bound_to_backward(joint_);
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      placement_.forward_side.push_back(joint_.nodes[i].phase == Phase::forward ||
                                        (planned_ && !bound[i]));
    }
    IdMap<ValueId, bool> needed = output_values(joint_, of_forward);
    const auto mark = [&](int32_t node) {
      const bool is_needed = any_marked(joint_.nodes[node].outputs, needed);
      if (is_needed) placement_.forward_side[node] = true;
      return is_needed;
    };
    needed_nodes(joint_, needed, mark);
    for (const Output& output : joint_.outputs) {
      if (!is_token_output(output)) continue;
      const ValueId boundary = token_at_boundary(output.value);
      placement_.threads.push_back({output, boundary});
      needed[boundary] = true;
    }
    needed_nodes(joint_, needed, mark);
    for (const Input& input : joint_.inputs) {
      if (input.kind != InputKind::tangent || !needed[input.value]) continue;
      throw GraphError(ErrorText{"results that depend on primals only",
                                 "one that depends on the tangent %" + to_string(input.value), ""});
    }
  }

  /// Walks from the gradients back to saved values. The nodes on the way run in the backward.
  void mark_backward_needs() {
    needed_backward_ =
        output_values(joint_, [](OutputKind kind) { return kind == OutputKind::gradient; });
    for (const Placement::Thread& thread : placement_.threads) {
      if (thread.crosses()) needed_backward_[thread.end.value] = true;
    }
    placement_.runs_backward = needed_nodes(joint_, needed_backward_, [&](int32_t i) {
      return on_forward_side(i) ? must_recompute(i) : must_run(i, needed_backward_);
    });
  }

  /// A forward node is recomputed if the backward needs an output of it that is not saved.
  bool must_recompute(int32_t i) const {
    const Node& node = joint_.nodes[i];
    const auto made = node.results(), tokens = node.token_inputs();
    const bool missing = std::ranges::any_of(
        made, [&](ValueId id) { return id != kNoValue && needed_backward_[id] && !saved_[id]; });
    if (!missing) return false;
    const bool has_tokens =
        std::ranges::all_of(tokens, [&](ValueId token) { return bool(saved_[token]); });
    if (!has_tokens || (node.tokens != 0 && !node.replayable())) {
      throw GraphError(ErrorText{
          "what effects give to be saved, and what random draws give or the states they began with",
          "a backward that needs " + node_text(joint_, node), "save it"});
    }
    return true;
  }

  void collect_saved() {
    const auto save = [&](ValueId id) {
      const Value& value = joint_.value(id);
      AG_CHECK(value.kind != ValueKind::tensor || joint_.owns_storage(id),
               "a view would be saved: " + value_text(value));
      placement_.saved.push_back(id);
    };
    for (const Input& input : joint_.inputs) {
      if (input.kind == InputKind::primal && needed_backward_[input.value]) save(input.value);
    }
    std::set<ValueId> replayed;  // tokens from which draws are repeated
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (!placement_.forward_side[i]) continue;
      const Node& node = joint_.nodes[i];
      const bool again = placement_.runs_backward[i];
      for (const ValueId id : node.results()) {
        if (id != kNoValue && needed_backward_[id] && (!again || saved_[id])) save(id);
      }
      if (again) replayed.insert(node.token_inputs().begin(), node.token_inputs().end());
    }
    placement_.saved.insert(placement_.saved.end(), replayed.begin(), replayed.end());
  }

  void mark_forward_nodes() {
    IdMap<ValueId, bool> needed = output_values(joint_, of_forward);
    for (const Placement::Thread& thread : placement_.threads) needed[thread.boundary] = true;
    for (const ValueId id : placement_.saved) needed[id] = true;
    placement_.runs_forward = needed_nodes(
        joint_, needed, [&](int32_t i) { return on_forward_side(i) && must_run(i, needed); });
  }

  const Graph& joint_;
  bool planned_;
  IdMap<ValueId, bool> saved_;
  Placement placement_;
  IdMap<ValueId, bool> needed_backward_;
};

}  // namespace

Placement place(const Graph& joint, IdMap<ValueId, bool> saved, bool planned) {
  return Placer(joint, std::move(saved), planned).place();
}

}  // namespace antegrad
