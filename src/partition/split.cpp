#include "partition/split.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <utility>

#include <antegrad/error.h>

#include "graph/text.h"
#include "partition/dependence.h"
#include "partition/tags.h"

namespace antegrad {
namespace {

constexpr std::array<std::string_view, 6> kWhy = {"primal",    "result", "intermediate",
                                                  "view base", "size",   "generator state"};

bool is_token_output(const Output& output) {
  return output.kind == OutputKind::generator_token || output.kind == OutputKind::effect_token;
}

void drop_tags(Graph& graph) {
  graph.blocks.clear();
  for (Node& node : graph.nodes) {
    node.block = -1;
    node.recompute = Recompute::as_decided;
  }
}

bool must_run(const Node& node) { return node.op.traits().collective || node.op.traits().mutates; }

size_t at(ValueId id) { return static_cast<size_t>(id); }

/// Decides where each node goes, then moves the parts of the joint graph there.
class Splitter {
 public:
  Splitter(Graph joint, const std::vector<bool>& saved, const Schedule& schedule)
      : joint_(std::move(joint)),
        schedule_(schedule),
        saved_(saved),
        producer_(joint_.values.size(), -1),
        tags_(schedule.planned ? (drop_tags(joint_), joint_) : joint_) {
    saved_.resize(joint_.values.size(), false);
    if (schedule_.planned) bound_ = bound_to_backward(joint_);
    generator_of_ = generators_of_tokens(joint_);
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      for (const ValueId output : joint_.nodes[i].outputs) {
        if (output != kNoValue) producer_[at(output)] = static_cast<int32_t>(i);
      }
    }
  }

  Partition split() {
    mark_forward_side();
    mark_backward_needs();
    collect_saved();
    mark_forward_nodes();
    Partition partition;
    partition.forward = skeleton(".forward");
    partition.forward.values = joint_.values;
    partition.backward = skeleton(".backward");
    emit_backward_nodes(partition.backward);
    emit_forward(partition.forward);
    emit_backward_interface(partition.backward);
    partition.saved = std::move(report_);
    return partition;
  }

 private:
  // --- who belongs where ------------------------------------------------------------------------

  const Node* producer(ValueId id) const {
    const int32_t position = producer_[at(id)];
    return position < 0 ? nullptr : &joint_.nodes[static_cast<size_t>(position)];
  }

  bool on_forward_side(size_t node) const {
    return forward_side_[node] || joint_.nodes[node].phase == Phase::forward ||
           (schedule_.planned && !bound_[node]);
  }

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
      if (on_forward_side(static_cast<size_t>(producer_[at(token)]))) break;
      const auto output = std::find(node->outputs.begin(), node->outputs.end(), token);
      const auto from_end = std::distance(output, node->outputs.end());
      token = node->inputs[node->inputs.size() - static_cast<size_t>(from_end)];
    }
    return token;
  }

  /// What results need is forward, whenever it was captured: a function may take gradients inside.
  void mark_forward_side() {
    forward_side_.assign(joint_.nodes.size(), false);
    std::vector<bool> needed(joint_.values.size(), false);
    const auto mark = [&](size_t node) {
      forward_side_[node] = any_output(node, needed);
      return bool(forward_side_[node]);
    };
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind) && output.value != kNoValue) needed[at(output.value)] = true;
    }
    close(needed, mark);
    for (const Output& output : joint_.outputs) {
      if (!is_token_output(output)) continue;
      const ValueId boundary = token_at_boundary(output.value);
      threads_.push_back({output, boundary});
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
    runs_backward_.assign(joint_.nodes.size(), false);
    needed_backward_.assign(joint_.values.size(), false);
    replayed_.assign(joint_.values.size(), false);
    read_directly_.assign(joint_.values.size(), false);
    for (const Output& output : joint_.outputs) {
      if (output.kind != OutputKind::gradient || output.value == kNoValue) continue;
      needed_backward_[at(output.value)] = true;
      read_directly_[at(output.value)] = true;
    }
    for (const Thread& thread : threads_) {
      if (thread.crosses()) needed_backward_[at(thread.end.value)] = true;
    }
    for (size_t i = joint_.nodes.size(); i-- > 0;) {
      const Node& node = joint_.nodes[i];
      const bool runs = on_forward_side(i) ? must_recompute(i)
                                           : must_run(node) || any_output(i, needed_backward_);
      if (!runs) continue;
      runs_backward_[i] = true;
      for (const ValueId input : node.inputs) {
        if (on_forward_side(i) && is_token(input)) {
          replayed_[at(input)] = true;
          continue;
        }
        needed_backward_[at(input)] = true;
        if (!node.op.traits().view) read_directly_[at(input)] = true;
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
    std::vector<bool> is_result_storage(joint_.values.size(), false);
    for (const Output& output : joint_.outputs) {
      if (!handed_out(output.kind) || output.value == kNoValue) continue;
      const StorageId storage = joint_.value(output.value).storage;
      if (storage >= 0) is_result_storage[at(storage)] = true;
    }
    const auto save = [&](ValueId id, bool primal) {
      const Value& value = joint_.value(id);
      Saved saved{id, 0, SavedWhy::intermediate};
      if (value.kind != ValueKind::tensor) {
        saved.why = SavedWhy::size;
      } else {
        AG_CHECK(value.storage == id, "a view would be saved: " + value_text(value));
        saved.bytes = span_bytes(value.meta);
        if (primal) {
          saved.why = SavedWhy::primal;
        } else if (is_result_storage[at(value.storage)]) {
          saved.why = SavedWhy::result;
        } else if (!read_directly_[at(id)]) {
          saved.why = SavedWhy::view_base;
        }
      }
      report_.push_back(std::move(saved));
    };
    for (const Input& input : joint_.inputs) {
      if (input.kind == InputKind::primal && needed_backward_[at(input.value)]) {
        save(input.value, true);
      }
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (!on_forward_side(i)) continue;
      for (const ValueId id : joint_.nodes[i].outputs) {
        if (id == kNoValue || !needed_backward_[at(id)] || is_token(id)) continue;
        if (!runs_backward_[i] || saved_[at(id)]) save(id, false);
      }
    }
    for (size_t id = 0; id < replayed_.size(); ++id) {
      if (!replayed_[id]) continue;
      const std::string& generator = joint_.generators[at(generator_of_[id])];
      report_.push_back(
          {static_cast<ValueId>(id), state_bytes(generator), SavedWhy::generator_state});
    }
  }

  void mark_forward_nodes() {
    runs_forward_.assign(joint_.nodes.size(), false);
    std::vector<bool> needed(joint_.values.size(), false);
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind) && output.value != kNoValue) needed[at(output.value)] = true;
    }
    for (const Thread& thread : threads_) needed[at(thread.boundary)] = true;
    for (const Saved& saved : report_) needed[at(saved.value)] = true;
    close(needed, [&](size_t node) {
      runs_forward_[node] =
          on_forward_side(node) && (must_run(joint_.nodes[node]) || any_output(node, needed));
      return bool(runs_forward_[node]);
    });
  }

  // --- building the two graphs ------------------------------------------------------------------

  Graph skeleton(const char* suffix) const {
    Graph graph;
    graph.name = joint_.name + suffix;
    graph.symbols = joint_.symbols;
    graph.generators = joint_.generators;
    graph.opaque_names = joint_.opaque_names;
    graph.blocks = joint_.blocks;
    return graph;
  }

  void emit_forward(Graph& forward) {
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (runs_forward_[i]) forward.nodes.push_back(std::move(joint_.nodes[i]));
    }
    for (const Input& input : joint_.inputs) {
      if (input.kind != InputKind::tangent) forward.inputs.push_back(input);
    }
    for (const Output& output : joint_.outputs) {
      if (of_forward(output.kind)) {
        forward.outputs.push_back(output);
      }
    }
    for (const Thread& thread : threads_) {
      Output output = thread.end;
      output.value = thread.boundary;
      forward.outputs.push_back(output);
    }
    for (const Saved& saved : report_) {
      Output output;
      output.value = saved.value;
      output.kind = OutputKind::saved;
      output.index = generator_of_[at(saved.value)];
      forward.outputs.push_back(output);
    }
  }

  /// Emits the recomputed nodes that `ids` need and that have not run yet, in joint order.
  ///
  /// A checkpoint that another one needs on its way, inside of a third, runs for what leaves it only: the
  /// rest gets values of its own, which die here, and is computed once more when its own backward comes.
  void emit_missing(Graph& backward, const std::vector<ValueId>& ids) {
    missing_.clear();
    stack_.assign(ids.begin(), ids.end());
    while (!stack_.empty()) {
      const ValueId id = stack_.back();
      stack_.pop_back();
      const int32_t position = producer_[at(id)];
      if (position < 0 || there_[at(id)] || is_token(id)) continue;
      const auto i = static_cast<size_t>(position);
      if (!runs_backward_[i] || emitting_[i] || !on_forward_side(i)) continue;
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
    for (const size_t i : missing_) {
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
        // The thread of draws goes on from the forward's token; this one ends here.
        id = joint_.add_token();
      } else if (apart >= 0 && tags_.is_within(tags_.home(id), apart)) {
        id = renamed_[id] = another(id);
      } else if (there_[at(id)]) {
        id = another(id);  // nothing reads it: the one that is there serves
      } else {
        there_[at(id)] = true;
        const ValueId original = id;
        const StorageId storage = joint_.value(original).storage;
        if (was_there_[at(original)] || (storage >= 0 && current(storage) != storage)) {
          id = current_[at(original)] = another(original);
        }
        was_there_[at(original)] = true;
      }
    }
  }

  /// What stands for a value of the joint graph where the next node is emitted.
  ValueId current(ValueId id) const {
    const auto it = renamed_.find(id);
    return it != renamed_.end() ? it->second : at(id) < current_.size() ? current_[at(id)] : id;
  }

  /// What the schedule forgets after a node.
  void forget(const Node& node) {
    auto it = std::lower_bound(schedule_.forget.begin(), schedule_.forget.end(),
                               std::pair(node.id, ValueId{kNoValue}));
    for (; it != schedule_.forget.end() && it->first == node.id; ++it) {
      for (const ValueId id : shown_by_[it->second]) there_[at(id)] = false;
    }
  }

  /// A value like this one, of its own.
  ValueId another(ValueId id) {
    const auto fresh = static_cast<ValueId>(joint_.values.size());
    Value value = joint_.value(id);
    const auto own = [&](int32_t storage) {
      return storage == id ? fresh : storage < 0 ? storage : current(storage);
    };
    value.storage = own(value.storage);
    value.alias_class = own(value.alias_class);
    joint_.values.push_back(std::move(value));
    return fresh;
  }

  void emit_backward_nodes(Graph& backward) {
    emitting_.assign(joint_.nodes.size(), false);
    there_.assign(joint_.values.size(), false);
    for (const Saved& saved : report_) there_[at(saved.value)] = true;
    was_there_ = there_;
    current_.resize(joint_.values.size());
    std::iota(current_.begin(), current_.end(), 0);
    for (const auto& [node, base] : schedule_.forget) shown_by_[base];
    for (size_t id = 0; id < joint_.values.size() && !shown_by_.empty(); ++id) {
      const auto it = shown_by_.find(joint_.values[id].storage);
      if (it != shown_by_.end()) it->second.push_back(static_cast<ValueId>(id));
    }
    for (size_t i = 0; i < joint_.nodes.size(); ++i) {
      if (!runs_backward_[i] || on_forward_side(i)) continue;
      emit_missing(backward, joint_.nodes[i].inputs);
      // Whatever needs nodes by position is done with this one, so it can move.
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
    for (const Saved& saved : report_) {
      Input input;
      input.value = saved.value;
      input.kind = InputKind::saved;
      input.index = generator_of_[at(saved.value)];
      backward.inputs.push_back(std::move(input));
    }
    for (const Thread& thread : threads_) {
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

  /// The backward's draws start from a token of their own: other calls may come in between.
  static ValueId start_thread(Graph& backward, ValueId boundary) {
    const ValueId fresh = backward.add_token();
    for (Node& node : backward.nodes) {
      if (node.tokens > 0) std::replace(node.inputs.begin(), node.inputs.end(), boundary, fresh);
    }
    return fresh;
  }

  /// A thread of tokens: the joint output that ends it, and its last token of the forward.
  struct Thread {
    Output end;
    ValueId boundary;
    bool crosses() const { return end.value != boundary; }
  };

  Graph joint_;
  const Schedule& schedule_;
  std::vector<bool> bound_;  // by node: to the backward; empty when no nodes move
  std::vector<bool> saved_;
  std::vector<int32_t> producer_;      // by value: position of its node, -1 for inputs
  std::vector<int32_t> generator_of_;  // by value
  std::vector<Thread> threads_;
  std::vector<bool> forward_side_;   // by node: results need it
  std::vector<bool> runs_backward_;  // by node
  std::vector<bool> runs_forward_;   // by node
  std::vector<bool> needed_backward_;
  std::vector<bool> replayed_;       // by value: tokens from which nodes draw again
  std::vector<bool> read_directly_;  // by value: by other nodes than views
  std::vector<Saved> report_;
  Tags tags_;
  std::vector<bool> emitting_;    // by node
  std::vector<bool> there_;       // by value of the joint graph: saved, or computed again
  std::vector<bool> was_there_;   // same: at some time
  std::vector<ValueId> current_;  // same: what stands for it since it was computed once more
  std::unordered_map<StorageId, std::vector<ValueId>> shown_by_;  // values of storages to forget
  std::vector<int32_t> demanding_;                // blocks whose values are asked for
  std::unordered_map<ValueId, ValueId> renamed_;  // values that die in this emission
  std::vector<size_t> missing_;
  std::vector<ValueId> stack_;
};

/// Nothing to differentiate: the whole graph is the forward.
Partition inference(Graph joint) {
  Partition partition;
  partition.backward.name = joint.name + ".backward";
  partition.backward.symbols = joint.symbols;
  partition.backward.generators = joint.generators;
  partition.backward.opaque_names = joint.opaque_names;
  partition.backward.blocks = joint.blocks;
  partition.forward = std::move(joint);
  partition.forward.name += ".forward";
  std::erase_if(partition.forward.inputs,
                [](const Input& input) { return input.kind == InputKind::tangent; });
  return partition;
}

}  // namespace

std::string_view name(SavedWhy why) { return kWhy[static_cast<size_t>(why)]; }

bool has_backward(const Graph& joint) {
  return std::any_of(joint.outputs.begin(), joint.outputs.end(),
                     [](const Output& output) { return output.kind == OutputKind::gradient; });
}

Partition split_at(Graph joint, const std::vector<bool>& saved, const Schedule& schedule) {
  if (!has_backward(joint)) return inference(std::move(joint));
  Partition partition = Splitter(std::move(joint), saved, schedule).split();
  partition.schedule = schedule;
  return partition;
}

}  // namespace antegrad
