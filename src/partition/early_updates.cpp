#include "partition/early_updates.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/analysis.h"

namespace antegrad {
namespace {

class Mover {
 public:
  Mover(const Graph& backward, const Graph& forward)
      : graph_(backward),
        made_by_(producers(backward)),
        old_(backward.values.size(), false),
        needed_(backward.values.size(), false),
        target_(backward.values.size(), kNoValue) {
    for (const Output& output : graph_.outputs) {
      if (output.value == kNoValue) continue;
      if (!output.update) {
        needed_[output.value] = true;
        continue;
      }
      const ValueId old = forward.inputs[output.index].value;
      old_[StorageId(old)] = true;
      target_[output.value] = output.value;
    }
  }

  std::vector<Node> moved() && {
    find_updates();
    find_places();
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    const auto take = [&](int32_t position) { nodes.push_back(graph_.nodes[position]); };
    for (int32_t i = -1; i < std::ssize(graph_.nodes); ++i) {
      if (i >= 0 && !moves_[i]) take(i);
      std::ranges::for_each(behind_[i + 1], take);
    }
    return nodes;
  }

 private:
  bool is_old(ValueId id) const { return graph_.is_tensor(id) && old_[graph_.value(id).storage]; }

  // Pointwise nodes that lead to new values alone, with results of their sizes; of these, those
  // that read an old one, or what such a node makes.
  void find_updates() {
    const auto count = graph_.nodes.size();
    moves_.assign(count, false);
    for (size_t i = count; i-- > 0;) {
      const Node& node = graph_.nodes[i];
      const ValueId target = node.outputs.size() == 1 ? target_[node.outputs[0]] : kNoValue;
      moves_[i] = target != kNoValue && !needed_[node.outputs[0]] && node.op.traits().pointwise &&
                  graph_.value(node.outputs[0]).meta.sizes == graph_.value(target).meta.sizes;
      for (const ValueId input : node.inputs) {
        if (moves_[i]) {
          target_[input] = target;
        } else {
          needed_[input] = true;
        }
      }
    }
    IdMap<ValueId, bool> follows(graph_.values.size(), false);
    for (size_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes[i];
      moves_[i] = moves_[i] && std::ranges::any_of(node.inputs, [&](ValueId id) {
                    return is_old(id) || follows[id];
                  });
      if (moves_[i]) follows[node.outputs[0]] = true;
    }
  }

  // Behind which other node they run: together where they depend on each other, so that they may
  // become one kernel.
  void find_places() {
    IdMap<StorageId, int32_t> last_reader(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (moves_[i]) continue;
      for (const ValueId input : graph_.nodes[i].inputs) {
        if (is_old(input)) last_reader[graph_.value(input).storage] = static_cast<int32_t>(i);
      }
    }
    std::vector<int32_t> first(graph_.nodes.size());  // a node of the same update
    std::iota(first.begin(), first.end(), 0);
    const auto update_of = [&](int32_t node) {
      while (first[node] != node) node = first[node] = first[first[node]];
      return node;
    };
    std::vector<int32_t> ready(graph_.nodes.size(), -1);  // by update
    for (int32_t i = 0; i < std::ssize(graph_.nodes); ++i) {
      if (!moves_[i]) continue;
      for (const ValueId input : graph_.nodes[i].inputs) {
        const int32_t made = made_by_[input], here = update_of(i);
        if (made >= 0 && moves_[made]) {
          const int32_t other = update_of(made);
          first[here] = other;
          ready[other] = std::max(ready[other], ready[here]);
        } else {
          const int32_t read = is_old(input) ? last_reader[graph_.value(input).storage] : -1;
          ready[here] = std::max({ready[here], made, read});
        }
      }
    }
    behind_.resize(graph_.nodes.size() + 1);
    for (int32_t i = 0; i < std::ssize(graph_.nodes); ++i) {
      if (moves_[i]) behind_[ready[update_of(i)] + 1].push_back(i);
    }
  }

  const Graph& graph_;
  const IdMap<ValueId, int32_t> made_by_;
  IdMap<StorageId, bool> old_;                // of a value that an update replaces
  IdMap<ValueId, bool> needed_;               // by something besides updates
  IdMap<ValueId, ValueId> target_;            // a new value to which it leads
  std::vector<bool> moves_;                   // by node
  std::vector<std::vector<int32_t>> behind_;  // by place, the first one before all nodes
};

}  // namespace

Graph with_early_updates(Graph backward, const Graph& forward) {
  const auto updates = [](const Output& output) { return output.update; };
  if (std::ranges::none_of(backward.outputs, updates)) return backward;
  const auto places = input_positions(backward);
  for (const Output& output : backward.outputs) {
    if (!output.update) continue;
    const int32_t saved = places[forward.inputs[output.index].value];
    if (saved >= 0) backward.inputs[saved].index = output.index;
  }
  backward.nodes = Mover(backward, forward).moved();
  return backward;
}

}  // namespace antegrad
