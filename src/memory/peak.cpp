#include "memory/peak.h"

#include <algorithm>

#include "memory/liveness.h"

namespace antegrad {
namespace {

/// Runs one graph after the other on a common count of live bytes.
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

  /// `freed_here(life)` says whether a storage that dies in the graph is the graph's to free.
  template <class FreedHere>
  void run(const Graph& graph, Phase pass, const std::vector<StorageLife>& lives,
           FreedHere freed_here) {
    const size_t count = graph.nodes.size();
    std::vector<int64_t> made(count, 0);
    std::vector<int64_t> dying(count + 1, 0);
    for (const StorageLife& life : lives) {
      if (life.first >= 0) made[static_cast<size_t>(life.first)] += life.bytes;
      // An input that nothing reads is freed when the first node runs.
      if (freed_here(life)) dying[static_cast<size_t>(std::max(life.last, 0))] += life.bytes;
    }
    for (size_t i = 0; i < count; ++i) {
      const Node& node = graph.nodes[i];
      live_ += made[i];
      if (live_ > timeline_.peak_bytes) {
        timeline_.peak_bytes = live_;
        timeline_.peak_position = static_cast<int32_t>(timeline_.points.size());
      }
      timeline_.points.push_back({node.id, live_, node.op, pass});
      live_ -= dying[i];
    }
    live_ -= dying[count];
  }

 private:
  Timeline& timeline_;
  int64_t live_ = 0;
};

/// Storages of a graph's outputs, by kind; what several outputs share counts once.
std::vector<bool> storages_of(const Graph& graph, std::initializer_list<OutputKind> kinds) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Output& output : graph.outputs) {
    if (output.value == kNoValue || graph.value(output.value).kind != ValueKind::tensor) continue;
    if (std::find(kinds.begin(), kinds.end(), output.kind) == kinds.end()) continue;
    result[static_cast<size_t>(graph.value(output.value).storage)] = true;
  }
  return result;
}

std::vector<bool> inputs_of(const Graph& graph, InputKind kind) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Input& input : graph.inputs) {
    if (input.kind == kind) result[static_cast<size_t>(input.value)] = true;
  }
  return result;
}

}  // namespace

Timeline simulate(const Partition& partition, const ByteRules& rules) {
  const Graph& forward = partition.forward;
  const Graph& backward = partition.backward;
  Timeline timeline;
  timeline.points.reserve(forward.nodes.size() + backward.nodes.size());
  Simulation simulation(timeline);

  // By storage id, which both graphs share.
  const std::vector<bool> results = storages_of(forward, {OutputKind::result});
  const std::vector<bool> saved = storages_of(forward, {OutputKind::saved});
  const auto has = [](const std::vector<bool>& set, StorageId storage) {
    return static_cast<size_t>(storage) < set.size() && set[static_cast<size_t>(storage)];
  };

  const std::vector<StorageLife> forward_lives = liveness(forward, rules);
  simulation.run(forward, Phase::forward, forward_lives, [&](const StorageLife& life) {
    const bool primal = life.first < 0;
    return !primal && !has(results, life.storage) && !has(saved, life.storage);
  });

  std::vector<bool> held(forward.values.size(), false);  // primals and results
  for (const StorageLife& life : forward_lives) {
    const bool free = life.first < 0 || has(results, life.storage);
    held[static_cast<size_t>(life.storage)] = free;
    if (!free && has(saved, life.storage)) timeline.saved_bytes += life.bytes;
  }

  const std::vector<bool> tangents = inputs_of(backward, InputKind::tangent);
  const std::vector<bool> gradients = storages_of(backward, {OutputKind::gradient});
  const std::vector<StorageLife> backward_lives = liveness(backward, rules);
  for (const StorageLife& life : backward_lives) {
    if (has(tangents, life.storage)) simulation.allocate(life.bytes);
  }
  simulation.run(backward, Phase::backward, backward_lives, [&](const StorageLife& life) {
    // A result that is computed again here is another tensor than the one the caller holds.
    const bool from_caller =
        life.first < 0 && (has(tangents, life.storage) || has(held, life.storage));
    return !from_caller && !has(gradients, life.storage);
  });
  return timeline;
}

}  // namespace antegrad
