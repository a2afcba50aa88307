#include "partition/placement.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <antegrad/error.h>

#include "graph/ids.h"
#include "graph/text.h"
#include "partition/dependence.h"
#include "partition/tags.h"

namespace antegrad {
namespace {

bool is_token_output(const Output& output) {
  return output.kind == OutputKind::generator_token || output.kind == OutputKind::effect_token;
}

bool must_run(const Node& node) { return node.op.traits().collective || node.op.traits().mutates; }

class Placer {
 public:
  Placer(const Graph& joint, std::vector<bool> saved, bool planned)
      : joint_(joint), planned_(planned), saved_(std::move(saved)) {
    saved_.resize(joint_.values.size(), false);
    placement_.generator_of = generators_of_tokens(joint_);
    placement_.producer.assign(joint_.values.size(), -1);
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      for (const ValueId output : joint_.nodes[i].outputs) {
        if (output != kNoValue) placement_.producer[at(output)] = static_cast<int32_t>(i);
      }
    }
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
    const int32_t position = placement_.producer[at(id)];
    return position < 0 ? nullptr : &joint_.nodes[static_cast<size_t>(position)];
  }

  bool on_forward_side(size_t node) const { return placement_.forward_side[node]; }

  /// Marks what `needed` reaches, from the last node to the first.
  template <class Keep>
  void close(std::vector<bool>& needed, Keep keep) const {
    for (size_t i = joint_.nodes.size(); i-- > 0;) {
      if (!keep(i)) continue;
      for (const ValueId input : joint_.nodes[i].inputs) needed[at(input)] = true;
    }
  }

  bool any_output(size_t node, const std::vector<bool>& needed) const {
    const std::vector<ValueId>& outputs = joint_.nodes[node].outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](ValueId id) { return id != kNoValue && needed[at(id)]; });
  }

  /// Where the thread of tokens that ends in `token` crosses from the forward to the backward.
  ValueId token_at_boundary(ValueId token) const {
    while (const Node* node = producer(token)) {
      if (on_forward_side(static_cast<size_t>(placement_.producer[at(token)]))) break;
      const auto output = std::find(node->outputs.begin(), node->outputs.end(), token);
      const auto from_end = std::distance(output, node->outputs.end());
      token = node->inputs[node->inputs.size() - static_cast<size_t>(from_end)];
    }
    return token;
  }

  /// What results need is forward, whenever it was captured: a function may take gradients inside.
  void mark_forward_side() {
    std::vector<bool> bound;
    if (planned_) bound = bound_to_backward(joint_);
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      placement_.forward_side.push_back(joint_.nodes[i].phase == Phase::forward ||
                                        (planned_ && !bound[i]));
    }
    std::vector<bool> needed(joint_.values.size(), false);
    const auto mark = [&](size_t node) {
      if (!any_output(node, needed)) return false;
      placement_.forward_side[node] = true;
      return true;
    };
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind) && output.value != kNoValue) needed[at(output.value)] = true;
    }
    close(needed, mark);
    for (const Output& output : joint_.outputs) {
      if (!is_token_output(output)) continue;
      const ValueId boundary = token_at_boundary(output.value);
      placement_.threads.push_back({output, boundary});
      needed[at(boundary)] = true;
    }
    close(needed, mark);
    for (const Input& input : joint_.inputs) {
      if (input.kind != InputKind::tangent || !needed[at(input.value)]) continue;
      throw GraphError(ErrorText{"results that depend on primals only",
                                 "one that depends on the tangent %" + std::to_string(input.value),
                                 ""});
    }
  }

  /// Runs from the gradients to what is saved; what is met on the way runs in the backward.
  void mark_backward_needs() {
    placement_.runs_backward.assign(joint_.nodes.size(), false);
    needed_backward_.assign(joint_.values.size(), false);
    replayed_.assign(joint_.values.size(), false);
    for (const Output& output : joint_.outputs) {
      if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
      needed_backward_[at(output.value)] = true;
    }
    for (const Placement::Thread& thread : placement_.threads) {
      if (thread.crosses()) needed_backward_[at(thread.end.value)] = true;
    }
    for (size_t i = joint_.nodes.size(); i-- > 0;) {
      const Node& node = joint_.nodes[i];
      const bool runs = on_forward_side(i) ? must_recompute(i)
                                           : must_run(node) || any_output(i, needed_backward_);
      if (!runs) continue;
      placement_.runs_backward[i] = true;
      for (const ValueId input : node.inputs) {
        if (on_forward_side(i) && is_token(input)) {
          replayed_[at(input)] = true;
          continue;
        }
        needed_backward_[at(input)] = true;
      }
    }
  }

  /// A forward node runs again when the backward needs an output of it that is not saved.
  bool must_recompute(size_t i) {
    const Node& node = joint_.nodes[i];
    const bool missing = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      return id != kNoValue && needed_backward_[at(id)] && !saved_[at(id)] && !is_token(id);
    });
    if (!missing) return false;
    const bool has_tokens = std::all_of(node.inputs.end() - node.tokens, node.inputs.end(),
                                        [&](ValueId token) { return bool(saved_[at(token)]); });
    if (!has_tokens || (node.tokens != 0 && !may_be_replayed(node))) {
      throw GraphError(ErrorText{
          "what effects give to be saved, and what random draws give or the states they began with",
          "a backward that needs " + node_text(joint_, node), "save it"});
    }
    return true;
  }

  bool is_token(ValueId id) const { return joint_.value(id).kind == ValueKind::token; }

  void collect_saved() {
    const auto save = [&](ValueId id) {
      const Value& value = joint_.value(id);
      AG_CHECK(value.kind != ValueKind::tensor || value.storage == id,
               "a view would be saved: " + value_text(value));
      placement_.saved.push_back(id);
    };
    for (const Input& input : joint_.inputs) {
      if (input.kind == InputKind::primal && needed_backward_[at(input.value)]) save(input.value);
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (!on_forward_side(i)) continue;
      for (const ValueId id : joint_.nodes[i].outputs) {
        if (id == kNoValue || !needed_backward_[at(id)] || is_token(id)) continue;
        if (!placement_.runs_backward[i] || saved_[at(id)]) save(id);
      }
    }
    for (size_t id = 0; id < replayed_.size(); ++id) {
      if (replayed_[id]) placement_.saved.push_back(static_cast<ValueId>(id));
    }
  }

  void mark_forward_nodes() {
    placement_.runs_forward.assign(joint_.nodes.size(), false);
    std::vector<bool> needed(joint_.values.size(), false);
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind) && output.value != kNoValue) needed[at(output.value)] = true;
    }
    for (const Placement::Thread& thread : placement_.threads) needed[at(thread.boundary)] = true;
    for (const ValueId id : placement_.saved) needed[at(id)] = true;
    close(needed, [&](size_t node) {
      placement_.runs_forward[node] =
          on_forward_side(node) && (must_run(joint_.nodes[node]) || any_output(node, needed));
      return bool(placement_.runs_forward[node]);
    });
  }

  const Graph& joint_;
  bool planned_;
  std::vector<bool> saved_;
  Placement placement_;
  std::vector<bool> needed_backward_;  // by value
  std::vector<bool> replayed_;         // by value: tokens from which nodes draw again
};

}  // namespace

Placement place(const Graph& joint, std::vector<bool> saved, bool planned) {
  return Placer(joint, std::move(saved), planned).place();
}

}  // namespace antegrad
