#include "fusion/groups.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cost/node_cost.h"
#include "fusion/contracted_order.h"
#include "fusion/loops.h"
#include "graph/analysis.h"

namespace antegrad {
namespace {

constexpr int32_t kLargestGroup = 64;
constexpr int32_t kMostLateReads = 2;

/// Sizes and strides, without dimensions that have one element in memory.
std::pair<Shape, Shape> dims_in_memory(const TensorMeta& meta) {
  std::pair<Shape, Shape> dims;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] == IntExpr(1) || meta.strides[i] == IntExpr(0)) continue;
    dims.first.push_back(meta.sizes[i]);
    dims.second.push_back(meta.strides[i]);
  }
  return dims;
}

/// Whether `view` shows all elements of `base` in their order, possibly repeated.
bool keeps_order(const TensorMeta& base, const TensorMeta& view) {
  if (!(base.offset == view.offset)) return false;
  const auto of_base = dims_in_memory(base);
  const auto of_view = dims_in_memory(view);
  if (of_base == of_view) return true;
  const auto in_a_row = [](const std::pair<Shape, Shape>& dims) {
    return dims.second == contiguous_strides(dims.first);
  };
  const auto elements = [](const std::pair<Shape, Shape>& dims) {
    IntExpr product = 1;
    for (const IntExpr& size : dims.first) product = product * size;
    return product;
  };
  return in_a_row(of_base) && in_a_row(of_view) && elements(of_base) == elements(of_view);
}

/// A value as seen by kernels: its producer, through views that only show elements.
struct Seen {
  int32_t maker = -1;       ///< position of the producer, which is not such a view; -1: an input
  ValueId made = kNoValue;  ///< the value that the producer returns
  bool reordered = false;
  bool other_half = false;  ///< some view runs in the other half than the producer
};

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<int64_t>& symbols, const std::vector<bool>& apart)
      : graph_(graph),
        symbols_(symbols),
        joint_(is_joint(graph)),
        seen_(graph.values.size()),
        readers_(graph.values.size()),
        kept_(graph.values.size(), false),
        transparent_(graph.nodes.size(), false) {
    look_through_views();
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const bool alone = !apart.empty() && apart[i];
      loops_.push_back(alone ? std::nullopt : loops_of_node(graph.nodes[i]));
    }
    in_group_.assign(graph.nodes.size(), 1);
    reordered_.assign(graph.nodes.size(), false);
  }

  FusionGroups run() {
    ContractedOrder order(static_cast<int32_t>(graph_.nodes.size()), dependences());
    std::ranges::stable_sort(pairs_,
                             [](const Pair& a, const Pair& b) { return a.bytes > b.bytes; });
    members_.resize(graph_.nodes.size());
    for (size_t i = 0; i < members_.size(); ++i) members_[i] = {static_cast<int32_t>(i)};
    first_.resize(graph_.nodes.size());
    std::iota(first_.begin(), first_.end(), 0);
    for (const Pair& pair : pairs_) join(order, pair);
    return result(order);
  }

 private:
  struct Pair {
    int32_t made = 0;
    int32_t user = 0;
    int64_t bytes = 0;
    bool reordered = false;
  };

  const Node& node(int32_t position) const { return graph_.nodes[position]; }

  /// Whether both run in the forward or both in the backward. A backward by itself also has nodes
  /// of the forward that run again.
  bool same_half(const Node& a, const Node& b) const { return !joint_ || a.phase == b.phase; }

  std::optional<Loops> loops_of_node(const Node& node) const {
    if (const auto rows = row_loops_of(graph_, node, symbols_)) return rows->loops;
    if (const auto parts = part_loops_of(graph_, node, symbols_)) return parts;
    if (const auto windows = window_loops_of(graph_, node, symbols_)) return windows;
    return loops_of(graph_, node, symbols_);
  }

  /// Whether a value that a node makes runs over its loops, or over their rows.
  bool is_of_loops(const Node& maker, ValueId made) const {
    if (part_loops_of(graph_, maker, symbols_) || window_loops_of(graph_, maker, symbols_))
      return false;
    const auto rows = row_loops_of(graph_, maker, symbols_);
    const auto place = std::ranges::find(maker.outputs, made) - maker.outputs.begin();
    return !rows || place < static_cast<std::ptrdiff_t>(rows->shared);
  }

  void look_through_views() {
    for (const Input& input : graph_.inputs) seen_[input.value].made = input.value;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& here = graph_.nodes[i];
      transparent_[i] = only_shows(graph_, here);
      for (const ValueId id : here.outputs) {
        if (id == kNoValue) continue;
        if (transparent_[i]) {
          Seen seen = seen_[here.inputs[0]];
          seen.reordered |= !keeps_order(graph_.value(here.inputs[0]).meta, graph_.value(id).meta);
          seen.other_half |= seen.maker >= 0 && !same_half(node(seen.maker), here);
          seen_[id] = seen;
        } else {
          seen_[id] = {static_cast<int32_t>(i), id};
        }
      }
      if (transparent_[i]) continue;
      for (const ValueId id : here.inputs) {
        std::vector<int32_t>& readers = readers_[seen_[id].made];
        const auto position = static_cast<int32_t>(i);
        if (readers.empty() || readers.back() != position) readers.push_back(position);
      }
    }
    for (const Output& output : graph_.outputs) {
      if (output.value != kNoValue) kept_[seen_[output.value].made] = true;
    }
  }

  /// Whether the rules for pairs allow `user` to read its input `input` in the loop of the
  /// producer.
  bool may_share(int32_t user, size_t input) const {
    const Seen& seen = seen_[node(user).inputs[input]];
    const Node& maker = node(seen.maker);
    const Node& reader = node(user);
    const Value& made = graph_.value(seen.made);
    if (made.kind != ValueKind::tensor || !loops_[seen.maker] || !loops_[user]) return false;
    if (!is_of_loops(maker, seen.made) || window_loops_of(graph_, reader, symbols_)) return false;
    if (!same_half(maker, reader) || seen.other_half) return false;
    if (!(made.meta.device == device_of(reader))) return false;
    if (reader.op.traits().gathers && input == 0) return false;
    if (loops_[seen.maker]->columns) return false;
    return !seen.reordered || (readers_[seen.made].size() == 1 && !kept_[seen.made]);
  }

  /// The device of the first tensor output.
  Device device_of(const Node& node) const {
    for (const ValueId id : node.outputs) {
      if (graph_.is_tensor(id)) return graph_.value(id).meta.device;
    }
    return {};
  }

  /// Edges between nodes that are not plain views. Also records the pairs that may be joined.
  std::vector<OrderEdge> dependences() {
    std::vector<OrderEdge> edges;
    IdMap<StorageId, std::vector<int32_t>> touched(graph_.values.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (transparent_[i]) continue;
      const auto user = static_cast<int32_t>(i);
      const Node& here = graph_.nodes[i];
      for (size_t input = 0; input < here.inputs.size(); ++input) {
        const Seen& seen = seen_[here.inputs[input]];
        if (seen.maker < 0) continue;
        const bool token = graph_.value(seen.made).kind == ValueKind::token;
        const bool shares = !token && may_share(user, input);
        edges.push_back({seen.maker, user, !token && !shares});
        if (!shares) continue;
        pairs_.push_back(
            {seen.maker, user, moved_bytes(graph_.value(seen.made), symbols_), seen.reordered});
      }
      order_writes(user, touched, edges);
    }
    return edges;
  }

  /// A node that writes memory runs after all earlier accesses, and before all later ones.
  void order_writes(int32_t user, IdMap<StorageId, std::vector<int32_t>>& touched,
                    std::vector<OrderEdge>& edges) const {
    for (const ValueId id : node(user).inputs) {
      const StorageId storage = graph_.value(id).storage;
      if (graph_.value(id).kind != ValueKind::tensor || !storage.valid()) continue;
      std::vector<int32_t>& before = touched[storage];
      if (node(user).op.traits().mutates) {
        for (const int32_t other : before) {
          if (other != user) edges.push_back({other, user, true});
        }
        before.clear();
      } else if (!before.empty() && node(before.front()).op.traits().mutates) {
        if (before.front() != user) edges.push_back({before.front(), user, true});
      }
      if (before.empty() || before.back() != user) before.push_back(user);
    }
  }

  void join(ContractedOrder& order, const Pair& pair) {
    const int32_t made = order.find(pair.made);
    const int32_t user = order.find(pair.user);
    if (made == user) return;
    if (in_group_[made] + in_group_[user] > kLargestGroup) return;
    const bool reordered = reordered_[made] || reordered_[user] || pair.reordered;
    std::optional<Loops> loops = common_loops(*loops_[made], *loops_[user], reordered);
    if (!loops && broadcasts_into(*loops_[made], *loops_[user]) &&
        read_only_by(order, made, user) && !(reordered && loops_[user]->reduces)) {
      loops = loops_[user];
    }
    if (!loops || waits(order, made, user) || !order.contract(made, user)) return;
    const int32_t root = order.find(made);
    loops_[root] = loops;
    in_group_[root] = in_group_[made] + in_group_[user];
    first_[root] = std::min(first_[made], first_[user]);
    reordered_[root] = reordered;
    std::vector<int32_t>& kept = members_[root];
    std::vector<int32_t>& moved = members_[root == made ? user : made];
    kept.insert(kept.end(), moved.begin(), moved.end());
    moved.clear();
  }

  /// Whether the two as one would read many values that are made after its first node, such as a
  /// sum of many gradients. What its first nodes read would wait in memory for those.
  bool waits(ContractedOrder& order, int32_t made, int32_t user) const {
    const int32_t first = std::min(first_[made], first_[user]);
    std::vector<ValueId> late;
    for (const int32_t root : {made, user}) {
      for (const int32_t member : members_[root]) {
        for (const ValueId id : node(member).inputs) {
          const Seen& seen = seen_[id];
          if (seen.maker <= first) continue;
          const int32_t maker = order.find(seen.maker);
          if (maker != made && maker != user) late.push_back(seen.made);
        }
      }
    }
    std::ranges::sort(late);
    return std::unique(late.begin(), late.end()) - late.begin() > kMostLateReads;
  }

  /// Whether only these two groups read the results of the first.
  bool read_only_by(ContractedOrder& order, int32_t made, int32_t user) const {
    for (const int32_t member : members_[made]) {
      for (const ValueId id : node(member).outputs) {
        if (!graph_.is_tensor(id)) continue;
        if (kept_[id]) return false;
        for (const int32_t reader : readers_[id]) {
          const int32_t group = order.find(reader);
          if (group != made && group != user) return false;
        }
      }
    }
    return true;
  }

  FusionGroups result(ContractedOrder& order) const {
    std::vector<std::pair<int32_t, int32_t>> by_position;  // position, representative
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto position = static_cast<int32_t>(i);
      if (!transparent_[i] && runs(position) && order.find(position) == position) {
        by_position.emplace_back(order.position(position), position);
      }
    }
    std::sort(by_position.begin(), by_position.end());
    FusionGroups found;
    found.of_node.assign(graph_.nodes.size(), -1);
    for (const auto& [place, root] : by_position) {
      FusionGroup group;
      group.nodes = members_[root];
      group.generated = loops_[root].has_value();
      for (const int32_t member : group.nodes) {
        found.of_node[member] = static_cast<int32_t>(found.groups.size());
      }
      found.groups.push_back(std::move(group));
    }
    place_views(found);
    for (FusionGroup& group : found.groups) {
      std::sort(group.nodes.begin(), group.nodes.end());
      count_bytes(found, group);
    }
    return found;
  }

  /// Whether a node runs a kernel. Allocation of memory, and views that change how elements are
  /// read, do not.
  bool runs(int32_t position) const {
    return !node(position).op.traits().view &&
           (loops_[position] || !(node_cost(graph_, node(position), symbols_) == NodeCost{}) ||
            node(position).op.traits().effect || node(position).op.traits().collective);
  }

  void place_views(FusionGroups& found) const {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!transparent_[i]) continue;
      const Seen& seen = seen_[graph_.nodes[i].inputs[0]];
      const int32_t maker = seen.maker;
      if (maker < 0 || !loops_[maker]) continue;
      if (seen.other_half || !same_half(node(maker), graph_.nodes[i])) continue;
      const int32_t group = found.of_node[maker];
      found.of_node[i] = group;
      found.groups[group].nodes.push_back(static_cast<int32_t>(i));
    }
  }

  void count_bytes(const FusionGroups& found, FusionGroup& group) const {
    const int32_t self = found.of_node[group.nodes.front()];
    const auto outside = [&](int32_t position) { return found.of_node[position] != self; };
    std::vector<std::pair<ValueId, int64_t>> reads;
    for (const int32_t member : group.nodes) {
      if (transparent_[member]) continue;
      int64_t made_here = 0;
      for (const ValueId id : node(member).outputs) {
        if (id == kNoValue) continue;
        const int64_t bytes = moved_bytes(graph_.value(id), symbols_);
        made_here += bytes;
        const auto& readers = readers_[id];
        const bool written = !group.generated || kept_[id] || std::ranges::any_of(readers, outside);
        (written ? group.bytes_written : group.bytes_vanished) += bytes;
      }
      const OpTraits& traits = node(member).op.traits();
      if (!traits.reads_data) continue;
      for (size_t i = 0; i < node(member).inputs.size(); ++i) {
        const ValueId id = node(member).inputs[i];
        const Seen& seen = seen_[id];
        if (seen.maker >= 0 && !outside(seen.maker)) continue;
        int64_t bytes = moved_bytes(graph_.value(id), symbols_);
        if (traits.gathers && i == 0) bytes = std::min(bytes, made_here);
        reads.emplace_back(seen.made, bytes);
      }
    }
    std::sort(reads.begin(), reads.end());
    for (size_t i = 0; i < reads.size(); ++i) {
      // Of several reads of one value, the largest counts; sorting put it last.
      if (i + 1 == reads.size() || reads[i + 1].first != reads[i].first) {
        group.bytes_read += reads[i].second;
      }
    }
  }

  const Graph& graph_;
  const std::vector<int64_t>& symbols_;
  const bool joint_;
  IdMap<ValueId, Seen> seen_;
  IdMap<ValueId, std::vector<int32_t>> readers_;  // of results of nodes, and of inputs
  IdMap<ValueId, bool> kept_;                     // of the same: whether an output shows it
  std::vector<bool> transparent_;                 // by position
  std::vector<std::optional<Loops>> loops_;  // by position; those of a group at its representative
  std::vector<int32_t> in_group_;
  std::vector<bool> reordered_;
  std::vector<int32_t> first_;  // position of the first member, at the representative
  std::vector<std::vector<int32_t>> members_;
  std::vector<Pair> pairs_;
};

}  // namespace

FusionGroups fusion_groups(const Graph& graph, const std::vector<int64_t>& symbols,
                           const std::vector<bool>& apart) {
  return Grouping(graph, symbols, apart).run();
}

}  // namespace antegrad
