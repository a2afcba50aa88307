#include "memory/peak.h"

#include <algorithm>

#include "graph/analysis.h"
#include "memory/liveness.h"

namespace antegrad {
namespace {

/// Runs one graph after the other and counts live bytes across both.
class Simulation {
 public:
  explicit Simulation(Timeline& timeline) : timeline_(timeline) {}

  void allocate(int64_t bytes) {
    live_ += bytes;
    if (live_ <= timeline_.peak_bytes) return;
    timeline_.peak_bytes = live_;
    timeline_.peak_position = -1;
  }
  void free(int64_t bytes) { live_ -= bytes; }

  /// `freed_here(life)` tells whether the graph may free a storage that dies in it.
  template <class FreedHere>
  void run(const Graph& graph, Phase pass, const std::vector<StorageLife>& lives,
           const ByteRules& rules, FreedHere freed_here) {
    const size_t count = graph.nodes.size();
    std::vector<int64_t> made(count, 0);
    std::vector<int64_t> dying(count + 1, 0);
    for (const StorageLife& life : lives) {
      if (life.first >= 0) made[life.first] += life.bytes;
      // An unused input is freed when the first node runs.
      if (freed_here(life)) dying[std::max(life.last, 0)] += life.bytes;
    }
    for (size_t i = 0; i < count; ++i) {
      const Node& node = graph.nodes[i];
      live_ += made[i];
      const int64_t running = live_ + scratch_bytes(node.id, rules);
      if (running > timeline_.peak_bytes) {
        timeline_.peak_bytes = running;
        timeline_.peak_position = static_cast<int32_t>(timeline_.points.size());
      }
      timeline_.points.push_back({node.id, running, node.op, pass});
      live_ -= dying[i];
    }
    live_ -= dying[count];
  }

 private:
  Timeline& timeline_;
  int64_t live_ = 0;
};

/// Takes the bytes of results of fused nodes away, except of those that `keeps`.
template <class Keeps>
void drop_fused(const Graph& graph, const ByteRules& rules, Keeps keeps,
                std::vector<StorageLife>& lives) {
  if (rules.fused.empty()) return;
  for (StorageLife& life : lives) {
    const bool fused = life.first >= 0 && is_fused(graph.nodes[life.first].id, rules);
    if (fused && !keeps(life)) life.bytes = 0;
  }
}

/// In the backward, what a fused gradient is made from stays until that is read, since one kernel
/// computes both.
void prolong_reads_of_fused(const Graph& graph, const ByteRules& rules,
                            std::vector<StorageLife>& lives) {
  if (rules.fused.empty()) return;
  IdMap<StorageId, StorageLife*> of_storage(graph.values.size(), nullptr);
  for (StorageLife& life : lives) of_storage[life.storage] = &life;
  const auto life_of = [&](ValueId id) -> StorageLife* {
    return id != kNoValue && graph.is_tensor(id) ? of_storage[graph.value(id).storage] : nullptr;
  };
  const auto in_backward = [&](const StorageLife& life) {
    return life.first >= 0 && graph.nodes[life.first].phase == Phase::backward;
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->phase != Phase::backward || !is_fused(node->id, rules)) continue;
    int32_t last = -1;
    for (const ValueId id : node->outputs) {
      if (const StorageLife* made = life_of(id)) last = std::max(last, made->last);
    }
    for (const ValueId id : node->inputs) {
      StorageLife* read = life_of(id);
      if (read != nullptr && in_backward(*read)) read->last = std::max(read->last, last);
    }
  }
}

IdMap<StorageId, bool> inputs_of(const Graph& graph, InputKind kind) {
  IdMap<StorageId, bool> result(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (input.kind == kind) result[StorageId(input.value)] = true;
  }
  return result;
}

/// States of generators that the forward saves, or that the backward receives, each with its token.
template <class Record, class Kind>
std::vector<StorageLife> states_of(const Graph& graph, const std::vector<Record>& records,
                                   Kind saved, const ByteRules& rules) {
  std::vector<StorageLife> lives;
  IdMap<ValueId, int32_t> last;
  for (const Record& record : records) {
    if (record.kind != saved || record.value == kNoValue) continue;
    if (graph.value(record.value).kind != ValueKind::token) continue;
    if (last.empty()) last = last_uses(graph, Uses::by_nodes);
    const std::string& generator = graph.generators[record.index];
    lives.push_back(
        {StorageId(record.value), -1, last[record.value], state_bytes(generator, rules)});
  }
  return lives;
}

}  // namespace

Timeline simulate(const CallPlan& plan, const Graph& forward, const Graph& backward,
                  const ByteRules& rules) {
  Timeline timeline;
  timeline.points.reserve(forward.nodes.size() + backward.nodes.size());
  Simulation simulation(timeline);

  // Storages of the forward, whose nodes may write in place by now. The plan names values; the
  // owner of a value owns its storage.
  IdMap<StorageId, bool> of_caller = inputs_of(forward, InputKind::primal);
  IdMap<StorageId, bool> saved(forward.values.size(), false);
  IdMap<StorageId, bool> staged(forward.values.size(), false);
  for (size_t i = 0; i < plan.handed_out.size(); ++i) {
    mark_storage(forward, forward.outputs[i].value, of_caller);
  }
  for (const SavedSlot& slot : plan.saved) mark_storage(forward, slot.value, saved);
  std::vector<StorageLife> forward_lives = liveness(forward, rules);
  drop_fused(
      forward, rules, [&](const StorageLife& life) { return saved[life.storage]; }, forward_lives);
  for (StorageLife state : states_of(forward, forward.outputs, OutputKind::saved, rules)) {
    state.first = state.last;  // allocated when the draw begins
    saved[state.storage] = true;
    forward_lives.push_back(state);
  }
  for (const CallPlan::Mutation& mutation : plan.mutations) {
    if (!mutation.staged) continue;
    staged[forward.value(forward.outputs[mutation.output].value).storage] = true;
  }
  for (StorageLife& life : forward_lives) {
    if (staged[life.storage]) life.first = 0;  // the copy is made before the forward
  }
  simulation.run(forward, Phase::forward, forward_lives, rules, [&](const StorageLife& life) {
    return !of_caller[life.storage] && !saved[life.storage];
  });
  for (const StorageLife& life : forward_lives) {
    const bool kept = saved[life.storage] && !of_caller[life.storage];
    if (kept) timeline.saved_bytes += life.bytes;
  }

  // The backward cannot free what the caller holds.
  IdMap<StorageId, bool> not_ours(backward.values.size(), false);
  for (const Input& input : backward.inputs) {
    if (input.kind == InputKind::tangent) {
      not_ours[StorageId(input.value)] = true;
    } else if (input.kind == InputKind::saved && backward.is_tensor(input.value)) {
      not_ours[StorageId(input.value)] = of_caller[forward.value(input.value).storage];
    }
  }
  const IdMap<StorageId, bool> tangents = inputs_of(backward, InputKind::tangent);
  std::vector<StorageLife> backward_lives = liveness(backward, rules);
  prolong_reads_of_fused(backward, rules, backward_lives);
  drop_fused(
      backward, rules, [](const StorageLife&) { return false; }, backward_lives);
  const auto states = states_of(backward, backward.inputs, InputKind::saved, rules);
  backward_lives.insert(backward_lives.end(), states.begin(), states.end());
  for (const StorageLife& life : backward_lives) {
    if (tangents[life.storage]) simulation.allocate(life.bytes);
  }
  simulation.run(backward, Phase::backward, backward_lives, rules,
                 [&](const StorageLife& life) { return !not_ours[life.storage]; });
  return timeline;
}

}  // namespace antegrad
