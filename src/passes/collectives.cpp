#include "passes/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/analysis.h"
#include "graph/text.h"

namespace antegrad {
namespace {

/// By position in the graph.
struct Collective {
  int32_t start = -1;
  int32_t wait = -1;
  bool early = false;  ///< may start at any time
  int32_t cast = -1;   ///< or pack, of inputs of the graph, which makes its input; -1 for none
  int32_t link = 0;    ///< how many collectives that end late lead to it
};

/// Moves nodes, which otherwise keep their order.
class Mover {
 public:
  explicit Mover(Graph graph) : graph_(std::move(graph)), made_by_(producers(graph_)) {
    place_.reserve(graph_.nodes.size());
    for (int32_t i = 0; i < count(); ++i) place_.push_back({i, kHere});
    find_collectives();
  }

  void start_early(int64_t ahead) {
    std::vector<const Collective*> early;
    for (const Collective& one : all_) {
      if (one.early) early.push_back(&one);
    }
    for (size_t i = 0; i < early.size(); ++i) {
      const bool first = std::cmp_less(i, ahead);
      const int32_t after = first ? -1 : early[i - ahead]->wait;
      if (after > early[i]->start) continue;
      if (early[i]->cast >= 0) place_[early[i]->cast] = {after, kAfter};
      place_[early[i]->start] = {after, kAfter};
    }
  }

  void end_late() {
    find_links();
    std::vector<int32_t> first_inputs;  // by first link: where its input is made
    for (const Collective& one : all_) {
      if (one.early || one.link > 0) continue;
      const int32_t maker = made_by_[graph_.nodes[one.start].inputs.front()];
      first_inputs.push_back(maker < 0 ? one.start : maker);
    }
    std::ranges::sort(first_inputs);
    for (const Collective& one : all_) {
      if (one.early) continue;
      const auto next = std::ranges::upper_bound(first_inputs, one.start);
      const bool last = std::distance(next, first_inputs.end()) <= one.link;
      move_before(one.wait, last ? count() : *(next + one.link));
    }
  }

  Graph moved() && {
    std::vector<int32_t> order(graph_.nodes.size());
    for (int32_t i = 0; i < count(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return place_[i]; });
    std::vector<Node> nodes;
    nodes.reserve(order.size());
    for (const int32_t i : order) nodes.push_back(std::move(graph_.nodes[i]));
    graph_.nodes = std::move(nodes);
    return std::move(graph_);
  }

 private:
  /// Beside which node a node stands, and on which side of it.
  enum Side : uint8_t { kBefore, kHere, kAfter };
  using Place = std::pair<int32_t, Side>;

  int32_t count() const { return static_cast<int32_t>(graph_.nodes.size()); }

  void find_collectives() {
    std::map<ValueId, size_t> by_result;
    for (int32_t i = 0; i < count(); ++i) {
      const Node& node = graph_.nodes[i];
      if (starts_collective(node)) {
        for (const ValueId id : node.results()) by_result[id] = all_.size();
        all_.push_back({.start = i});
        find_before(all_.back());
      } else if (ends_collective(node)) {
        const auto started = by_result.find(node.inputs.front());
        if (started == by_result.end()) continue;  // started in the forward
        Collective& one = all_[started->second];
        if (one.wait < 0) one.wait = i;
      }
    }
    std::erase_if(all_, [](const Collective& one) { return one.wait < 0; });
  }

  void find_before(Collective& one) const {
    static const Op join = Op::intern("antegrad::join.default");
    const auto reads_inputs_alone = [&](int32_t node) {
      return std::ranges::all_of(graph_.nodes[node].inputs,
                                 [&](ValueId id) { return made_by_[id] < 0; });
    };
    one.early = reads_inputs_alone(one.start);
    if (one.early || graph_.nodes[one.start].inputs.size() != 1) return;
    const int32_t maker = made_by_[graph_.nodes[one.start].inputs.front()];
    const Node& cast = graph_.nodes[maker];
    const bool little = cast.inputs.size() == 1 || cast.op == join;
    if (!little || !reads_inputs_alone(maker) || cast.must_run_once()) return;
    one.cast = maker;
    one.early = true;
  }

  void find_links() {
    std::map<int32_t, Collective*> by_wait;
    for (Collective& one : all_) {
      if (!one.early) by_wait[one.wait] = &one;
    }
    IdMap<ValueId, int32_t> links(graph_.values.size(), 0);  // that lead to a value
    for (int32_t i = 0; i < count(); ++i) {
      const Node& node = graph_.nodes[i];
      int32_t before = 0;
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) before = std::max(before, links[id]);
      }
      if (const auto known = by_wait.find(i); known != by_wait.end()) {
        known->second->link = before++;
      }
      for (const ValueId id : node.outputs) {
        if (id != kNoValue) links[id] = before;
      }
    }
  }

  /// A node and those between it and `before` that depend on it.
  void move_before(int32_t first, int32_t before) {
    IdMap<ValueId, bool> later(graph_.values.size(), false);
    for (int32_t i = first; i < before; ++i) {
      const Node& node = graph_.nodes[i];
      if (i != first && !any_marked(node.inputs, later)) continue;
      place_[i] = std::max(place_[i], Place{before, kBefore});
      for (const ValueId id : node.outputs) {
        if (id != kNoValue) later[id] = true;
      }
    }
  }

  Graph graph_;
  IdMap<ValueId, int32_t> made_by_;
  std::vector<Collective> all_;
  std::vector<Place> place_;  // by node
};

/// What all ranks must have in common: the operator, its arguments that are text, such as the kind
/// of a reduction, and what it returns. Sizes may differ where each rank says how it splits.
std::string text_of(const Node& node, const Graph& graph) {
  std::string text = node.op.info().base_name;
  bool splits = false;
  std::vector<std::string> words;
  for (const Attr& attr : node.args) {
    splits |= attr.is<Shape>();
    if (attr.is<std::string>()) words.push_back(attr.as<std::string>());
  }
  if (!words.empty()) words.pop_back();  // the group
  for (const std::string& word : words) text += " " + word;
  for (const ValueId id : node.results()) {
    if (id == kNoValue) continue;
    const TensorMeta& meta = graph.value(id).meta;
    text += fmt::format(" {}[{}]", name(meta.dtype), splits ? "" : to_string(numel(meta)));
  }
  return text + "\n";
}

}  // namespace

bool ends_collective(const Node& node) { return node.op.traits().waits; }

bool starts_collective(const Node& node) {
  return node.op.traits().collective && !ends_collective(node) && !node.results().empty();
}

std::string group_of(const Node& node) {
  const auto last = std::find_if(node.args.rbegin(), node.args.rend(),
                                 [](const Attr& attr) { return attr.is<std::string>(); });
  return last == node.args.rend() ? std::string() : last->as<std::string>();
}

bool has_collectives(const Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const Node& node) { return node.op.traits().collective; });
}

std::string group_of_collectives(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (starts_collective(node)) return group_of(node);
  }
  return {};
}

Graph overlap_collectives(Graph graph, int64_t ahead) {
  if (ahead == 0 || !has_collectives(graph)) return graph;
  Mover mover(std::move(graph));
  mover.start_early(ahead);
  mover.end_late();
  return std::move(mover).moved();
}

Graph agree_on_collectives(Graph graph) {
  if (!has_collectives(graph)) return graph;
  std::map<std::string, std::string> collectives;
  for (const Node& node : graph.nodes) {
    if (!starts_collective(node)) continue;
    collectives[group_of(node)] += text_of(node, graph);
  }
  static const Op agree = Op::intern("antegrad::agree.default");
  int32_t next_id = next_node_id(graph);
  std::vector<Node> nodes;
  for (auto& [group, text] : collectives) {
    Node node;
    node.op = agree;
    node.args = {Attr(group), Attr(std::move(text))};
    node.phase = graph.nodes.front().phase;
    node.id = next_id++;
    nodes.push_back(std::move(node));
  }
  std::ranges::move(graph.nodes, std::back_inserter(nodes));
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace antegrad
