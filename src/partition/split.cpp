#include "partition/split.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "graph/analysis.h"
#include "graph/verify.h"
#include "partition/early_updates.h"
#include "partition/placement.h"
#include "partition/tags.h"

namespace antegrad {
namespace {

void drop_tags(Graph& graph) {
  graph.blocks.clear();
  for (Node& node : graph.nodes) {
    node.block = -1;
    node.recompute = Recompute::as_decided;
  }
}

/// Moves the nodes of the joint graph to the graphs where they were placed.
class Splitter {
 public:
  Splitter(Graph joint, Placement placement, const Schedule& schedule)
      : joint_(std::move(joint)),
        placement_(std::move(placement)),
        schedule_(schedule),
        tags_(joint_) {}

  Partition split() {
    Partition partition;
    const size_t values = joint_.values.size();
    partition.forward = joint_.skeleton(joint_.name + ".forward");
    partition.backward = joint_.skeleton(joint_.name + ".backward");
    emit_backward_nodes(partition.backward);
    emit_forward(partition.forward);
    copy_values(partition.forward, values);
    emit_backward_interface(partition.backward);
    partition.plan = plan_call(partition.forward, partition.backward);
    return partition;
  }

 private:
  bool is_token(ValueId id) const { return joint_.value(id).kind == ValueKind::token; }

  void emit_forward(Graph& forward) {
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (placement_.runs_forward[i]) forward.nodes.push_back(std::move(joint_.nodes[i]));
    }
    for (const Input& input : joint_.inputs) {
      if (input.kind != InputKind::tangent) forward.inputs.push_back(input);
    }
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind)) forward.outputs.push_back(output);
    }
    for (const Placement::Thread& thread : placement_.threads) {
      Output output = thread.end;
      output.value = thread.boundary;
      forward.outputs.push_back(output);
    }
    for (const ValueId saved : placement_.saved) {
      Output output;
      output.value = saved;
      output.kind = OutputKind::saved;
      output.index = placement_.generator_of[saved];
      forward.outputs.push_back(output);
    }
  }

  /// Those that the forward refers to; others are dead there.
  void copy_values(Graph& forward, size_t count) const {
    forward.values.resize(count);
    const auto copy = [&](ValueId id) {
      if (id != kNoValue) forward.value(id) = joint_.value(id);
    };
    for (const Input& input : forward.inputs) copy(input.value);
    for (const Node& node : forward.nodes) std::ranges::for_each(node.outputs, copy);
  }

  /// Emits the recomputed nodes that `ids` need and that have not run yet, in joint order.
  ///
  /// Consider checkpoints A and B inside C. If A is recomputed only because the backward of B needs
  /// its outputs, A runs for those outputs only. Its interior values get new ids, die here, and are
  /// recomputed once more for A's own backward.
  void emit_missing(Graph& backward, const std::vector<ValueId>& ids) {
    missing_.clear();
    stack_.assign(ids.begin(), ids.end());
    while (!stack_.empty()) {
      const ValueId id = stack_.back();
      stack_.pop_back();
      const int32_t i = placement_.producer[id];
      if (i < 0 || there_[id] || is_token(id)) continue;
      if (!placement_.runs_backward[i] || emitting_[i] || !placement_.forward_side[i]) continue;
      emitting_[i] = true;
      missing_.push_back(i);
      const std::vector<ValueId>& inputs = joint_.nodes[i].inputs;
      stack_.insert(stack_.end(), inputs.begin(), inputs.end());
    }
    if (missing_.empty()) return;
    std::sort(missing_.begin(), missing_.end());
    demanding_.clear();
    for (const ValueId id : ids) demanding_.push_back(tags_.home(id));
    renamed_.clear();
    for (const int32_t i : missing_) {
      emitting_[i] = false;
      emit_again(backward, joint_.nodes[i]);
    }
  }

  void emit_again(Graph& backward, const Node& node) {
    Node& again = backward.nodes.emplace_back(node);
    for (ValueId& id : again.inputs) id = current(id);
    const int32_t apart = tags_.outermost_apart(node.block, demanding_);
    for (ValueId& id : again.outputs) {
      if (id == kNoValue) continue;
      if (is_token(id)) {
        // The chain of draws continues from the forward's token; this one ends here.
        id = joint_.add_token();
      } else if (apart >= 0 && tags_.is_within(tags_.home(id), apart)) {
        id = renamed_[id] = another(id);
      } else if (there_[id]) {
        id = another(id);  // nothing reads it: the existing value serves
      } else {
        there_[id] = true;
        const ValueId original = id;
        const ValueId base = joint_.base(original);
        if (was_there_[original] || current(base) != base) {
          id = current_[original] = another(original);
        }
        was_there_[original] = true;
      }
    }
  }

  /// The current replacement of a value of the joint graph.
  ValueId current(ValueId id) const {
    const auto it = renamed_.find(id);
    return it != renamed_.end() ? it->second : current_.contains(id) ? current_[id] : id;
  }

  /// Applies the drops that the schedule has after a node.
  void forget(const Node& node) {
    auto it = std::lower_bound(schedule_.forget.begin(), schedule_.forget.end(),
                               std::pair(node.id, ValueId(kNoValue)));
    for (; it != schedule_.forget.end() && it->first == node.id; ++it) {
      for (const ValueId id : shown_by_[StorageId(it->second)]) there_[id] = false;
    }
  }

  /// A new value with the same metadata.
  ValueId another(ValueId id) {
    const StorageId storage = joint_.value(id).storage;
    const StorageId alias_class = joint_.value(id).alias_class;
    const ValueId fresh = joint_.add(joint_.value(id));
    const auto own = [&](StorageId was) {
      if (was == StorageId(id)) return StorageId(fresh);
      return was.valid() ? StorageId(current(ValueId(was))) : was;
    };
    joint_.value(fresh).storage = own(storage);
    joint_.value(fresh).alias_class = own(alias_class);
    return fresh;
  }

  void emit_backward_nodes(Graph& backward) {
    emitting_.assign(joint_.nodes.size(), false);
    there_.assign(joint_.values.size(), false);
    for (const ValueId saved : placement_.saved) there_[saved] = true;
    was_there_ = there_;
    current_.resize(joint_.values.size());
    std::iota(current_.begin(), current_.end(), ValueId(0));
    for (const auto& [node, base] : schedule_.forget) shown_by_[StorageId(base)];
    for (const ValueId id : joint_.values.ids()) {
      const auto it = shown_by_.find(joint_.value(id).storage);
      if (it != shown_by_.end()) it->second.push_back(id);
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (!placement_.runs_backward[i] || placement_.forward_side[i]) continue;
      emit_missing(backward, joint_.nodes[i].inputs);
      // No later step needs nodes by position, so this one can be moved.
      renamed_.clear();
      Node& node = backward.nodes.emplace_back(std::move(joint_.nodes[i]));
      for (ValueId& id : node.inputs) id = current(id);
      forget(node);
    }
    std::vector<ValueId> gradients;
    for (const Output& output : joint_.outputs) {
      if (output.kind == OutputKind::gradient && output.value != kNoValue) {
        gradients.push_back(output.value);
      }
    }
    emit_missing(backward, gradients);
    renamed_.clear();
    for (Output& output : joint_.outputs) {
      const bool gradient = output.kind == OutputKind::gradient && output.value != kNoValue;
      if (gradient) output.value = current(output.value);
    }
  }

  void emit_backward_interface(Graph& backward) {
    backward.values = std::move(joint_.values);
    for (const ValueId saved : placement_.saved) {
      Input input;
      input.value = saved;
      input.kind = InputKind::saved;
      input.index = placement_.generator_of[saved];
      backward.inputs.push_back(std::move(input));
    }
    for (const Placement::Thread& thread : placement_.threads) {
      if (!thread.crosses()) continue;
      Input input;
      input.value = start_thread(backward, thread.boundary);
      input.kind = thread.end.kind == OutputKind::generator_token ? InputKind::generator_token
                                                                  : InputKind::effect_token;
      input.index = thread.end.index;
      backward.inputs.push_back(std::move(input));
      backward.outputs.push_back(thread.end);
    }
    for (Input& input : joint_.inputs) {
      if (input.kind == InputKind::tangent) backward.inputs.push_back(std::move(input));
    }
    for (const Output& output : joint_.outputs) {
      if (output.kind == OutputKind::gradient) backward.outputs.push_back(output);
    }
  }

  /// The backward's draws start from their own token: other calls may run in between.
  static ValueId start_thread(Graph& backward, ValueId boundary) {
    const ValueId fresh = backward.add_token();
    for (Node& node : backward.nodes) {
      if (node.tokens > 0) std::ranges::replace(node.inputs, boundary, fresh);
    }
    return fresh;
  }

  Graph joint_;
  Placement placement_;
  const Schedule& schedule_;
  Tags tags_;
  std::vector<bool> emitting_;       // by node
  IdMap<ValueId, bool> there_;       // of the joint graph: saved, or recomputed by now
  IdMap<ValueId, bool> was_there_;   // by value: at some earlier time
  IdMap<ValueId, ValueId> current_;  // by value: its replacement since its last recomputation
  std::unordered_map<StorageId, std::vector<ValueId>> shown_by_;  // by storage: values to drop
  std::vector<int32_t> demanding_;                // blocks whose values are requested
  std::unordered_map<ValueId, ValueId> renamed_;  // values that die in this emission
  std::vector<int32_t> missing_;
  std::vector<ValueId> stack_;
};

/// Without gradients, the whole graph is the forward.
Partition inference(Graph joint) {
  Partition partition;
  partition.backward = joint.skeleton(joint.name + ".backward");
  partition.forward = std::move(joint);
  partition.forward.name += ".forward";
  std::erase_if(partition.forward.inputs,
                [](const Input& input) { return input.kind == InputKind::tangent; });
  partition.plan = plan_call(partition.forward, partition.backward);
  return partition;
}

}  // namespace

void PassResult<Partition>::check(const Partition& partition) {
  verify(partition.forward);
  verify(partition.backward);
  verify(partition.plan, partition.forward, partition.backward, partition.forward_values);
}

Partition split_at(Graph joint, const IdMap<ValueId, bool>& saved, const Schedule& schedule) {
  if (!has_backward(joint)) return inference(std::move(joint));
  if (schedule.planned) drop_tags(joint);
  Placement placement = place(joint, saved, schedule.planned);
  Partition partition = Splitter(std::move(joint), std::move(placement), schedule).split();
  partition.schedule = schedule;
  partition.backward = with_early_updates(std::move(partition.backward), partition.forward);
  return partition;
}

}  // namespace antegrad
