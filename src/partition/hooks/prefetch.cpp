#include "partition/hooks/prefetch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/analysis.h"

namespace antegrad {
namespace {

/// A fetch, by position in the backward, and where it starts.
struct Fetch {
  size_t read = 0;
  size_t start = 0;
};

/// Fetches that can start anywhere: what they read are inputs, and nobody is handed what they make.
std::vector<Fetch> fetches(const Graph& backward) {
  static const Op fetch = Op::intern("antegrad::fetch.default");
  const IdMap<ValueId, int32_t> made_by = producers(backward);
  IdMap<StorageId, bool> handed(backward.values.size(), false);
  for (const Output& output : backward.outputs) mark_storage(backward, output.value, handed);
  std::vector<Fetch> found;
  for (size_t i = 0; i < backward.nodes.size(); ++i) {
    const Node& node = backward.nodes[i];
    if (node.op != fetch) continue;
    const Value& made = backward.value(node.outputs.front());
    const bool of_input = made_by[node.inputs.front()] < 0;
    if (made.meta.device.kind == DeviceKind::cuda && of_input && !handed[made.storage]) {
      found.push_back({i, i});
    }
  }
  return found;
}

/// Chooses starts, within the limit.
class Starts {
 public:
  Starts(const Partition& partition, const ByteRules& rules) : rules_(rules) {
    const Timeline timeline = simulate(partition, rules);
    const size_t forward = partition.forward.nodes.size();
    for (size_t i = forward; i < timeline.points.size(); ++i) {
      live_.push_back(timeline.points[i].live);
    }
  }

  void choose(const Graph& backward, std::vector<Fetch>& all, int64_t ahead,
              std::optional<int64_t> most_bytes) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Node& node = backward.nodes[all[i].read];
      const int64_t bytes = storage_bytes(backward.value(node.outputs.front()).meta, rules_);
      for (auto lead = static_cast<size_t>(ahead); lead > 0; --lead) {
        const size_t start = lead > i ? 0 : all[i - lead].read + 1;
        const auto begin = live_.begin() + static_cast<std::ptrdiff_t>(start);
        const auto end = live_.begin() + static_cast<std::ptrdiff_t>(all[i].read);
        if (begin == end) continue;
        if (most_bytes && *std::max_element(begin, end) + bytes > *most_bytes) continue;
        std::for_each(begin, end, [&](int64_t& live) { live += bytes; });
        all[i].start = start;
        break;
      }
    }
  }

 private:
  const ByteRules& rules_;
  std::vector<int64_t> live_;  // by position in the backward
};

/// Replaces a fetch by its two nodes, of which it returns the first, and lets later nodes read
/// what the second one makes.
Node divide(Graph& backward, size_t position, int32_t id) {
  static const Op fetch_start = Op::intern("antegrad::fetch_start.default");
  static const Op fetch_wait = Op::intern("antegrad::fetch_wait.default");
  Node start = backward.nodes[position];
  start.op = fetch_start;
  const ValueId made = start.outputs.front();
  const ValueId there = backward.values.add(Value(backward.value(made)));
  for (size_t i = position + 1; i < backward.nodes.size(); ++i) {
    std::ranges::replace(backward.nodes[i].inputs, made, there);
  }
  Node& wait = backward.nodes[position];
  wait.op = fetch_wait;
  wait.inputs = {made, start.inputs.front()};
  wait.args = {attr::Input{}, attr::Input{}};
  wait.outputs = {there};
  wait.id = id;
  return start;
}

}  // namespace

void prefetch(Partition& partition, int64_t ahead, std::optional<int64_t> most_bytes,
              const ByteRules& rules) {
  Graph& backward = partition.backward;
  std::vector<Fetch> all = fetches(backward);
  if (all.empty() || ahead == 0) return;
  Starts(partition, rules).choose(backward, all, ahead, most_bytes);
  int32_t next_node = std::max(next_node_id(partition.forward), next_node_id(backward));
  std::vector<std::pair<size_t, Node>> starts;
  for (const Fetch& fetch : all) {
    if (fetch.start == fetch.read) continue;
    starts.emplace_back(fetch.start, divide(backward, fetch.read, next_node++));
  }
  std::ranges::stable_sort(starts, {}, [](const auto& start) { return start.first; });
  std::vector<Node> nodes;
  nodes.reserve(backward.nodes.size() + starts.size());
  auto start = starts.begin();
  for (size_t i = 0; i < backward.nodes.size(); ++i) {
    for (; start != starts.end() && start->first == i; ++start) {
      nodes.push_back(std::move(start->second));
    }
    nodes.push_back(std::move(backward.nodes[i]));
  }
  backward.nodes = std::move(nodes);
}

}  // namespace antegrad
