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

bool is_tensor(const Graph& graph, ValueId id) {
  return id != kNoValue && graph.value(id).kind == ValueKind::tensor;
}

/// Storages of a graph's outputs of the wanted kinds.
template <class Wanted>
std::vector<bool> storages_of(const Graph& graph, Wanted wanted) {
  std::vector<bool> result(graph.values.size(), false);
  for (const Output& output : graph.outputs) {
    if (!wanted(output.kind) || !is_tensor(graph, output.value)) continue;
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

Timeline simulate(const Graph& forward, const Graph& backward, const ByteRules& rules) {
  Timeline timeline;
  timeline.points.reserve(forward.nodes.size() + backward.nodes.size());
  Simulation simulation(timeline);

  const std::vector<bool> results = storages_of(forward, handed_out);
  const std::vector<bool> saved =
      storages_of(forward, [](OutputKind kind) { return kind == OutputKind::saved; });
  const std::vector<bool> primals = inputs_of(forward, InputKind::primal);
  const auto has = [](const std::vector<bool>& set, StorageId storage) {
    return set[static_cast<size_t>(storage)];
  };
  const std::vector<StorageLife> forward_lives = liveness(forward, rules);
  simulation.run(forward, Phase::forward, forward_lives, [&](const StorageLife& life) {
    return !has(primals, life.storage) && !has(results, life.storage) && !has(saved, life.storage);
  });
  for (const StorageLife& life : forward_lives) {
    const bool free = has(primals, life.storage) || has(results, life.storage);
    if (!free && has(saved, life.storage)) timeline.saved_bytes += life.bytes;
  }

  // What the caller holds is not the backward's to free. An in-place forward may have put a saved
  // value into the storage of another, so the two graphs agree on values and not on storages.
  std::vector<bool> of_caller(backward.values.size(), false);
  for (const Input& input : backward.inputs) {
    if (input.kind == InputKind::tangent) {
      of_caller[static_cast<size_t>(input.value)] = true;
    } else if (input.kind == InputKind::saved && is_tensor(backward, input.value)) {
      const StorageId storage = forward.value(input.value).storage;
      of_caller[static_cast<size_t>(input.value)] = has(primals, storage) || has(results, storage);
    }
  }
  const std::vector<bool> tangents = inputs_of(backward, InputKind::tangent);
  const std::vector<StorageLife> backward_lives = liveness(backward, rules);
  for (const StorageLife& life : backward_lives) {
    if (has(tangents, life.storage)) simulation.allocate(life.bytes);
  }
  simulation.run(backward, Phase::backward, backward_lives,
                 [&](const StorageLife& life) { return !has(of_caller, life.storage); });
  return timeline;
}

}  // namespace antegrad
