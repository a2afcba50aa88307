#include "partition/max_flow.h"

#include <algorithm>

#include <antegrad/error.h>

namespace antegrad {
namespace {

/// The residual network: two arcs per edge, one in each direction, grouped by their start vertex.
class Residual {
 public:
  Residual(int32_t vertices, const std::vector<FlowEdge>& edges)
      : begin_(vertices + 1, 0),
        head_(2 * edges.size()),
        twin_(2 * edges.size()),
        capacity_(2 * edges.size()) {
    for (const FlowEdge& edge : edges) {
      ++begin_[edge.from + 1];
      ++begin_[edge.to + 1];
    }
    for (size_t v = 1; v < begin_.size(); ++v) begin_[v] += begin_[v - 1];
    std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
    for (const FlowEdge& edge : edges) {
      const int32_t there = next[edge.from]++;
      const int32_t back = next[edge.to]++;
      head_[there] = edge.to;
      head_[back] = edge.from;
      twin_[there] = back;
      twin_[back] = there;
      capacity_[there] = edge.capacity;
    }
  }

  int32_t begin(int32_t vertex) const { return begin_[vertex]; }
  int32_t end(int32_t vertex) const { return begin_[vertex + 1]; }
  int32_t head(int32_t arc) const { return head_[arc]; }
  int64_t capacity(int32_t arc) const { return capacity_[arc]; }
  /// The residual capacity of the reverse arc.
  int64_t capacity_back(int32_t arc) const { return capacity_[twin_[arc]]; }
  int32_t tail(int32_t arc) const { return head_[twin_[arc]]; }
  size_t vertices() const { return begin_.size() - 1; }

  void push(int32_t arc, int64_t flow) {
    capacity_[arc] -= flow;
    capacity_[twin_[arc]] += flow;
  }

 private:
  std::vector<int32_t> begin_;  // CSR over vertices
  std::vector<int32_t> head_;   // by arc
  std::vector<int32_t> twin_;
  std::vector<int64_t> capacity_;
};

/// The vertices reachable from `start` over arcs with at least this capacity; with `backwards`,
/// against the direction of arcs.
std::vector<bool> reach(const Residual& net, int32_t start, int64_t least, bool backwards) {
  std::vector<bool> reached(net.vertices(), false);
  std::vector<int32_t> stack = {start};
  reached[start] = true;
  while (!stack.empty()) {
    const int32_t vertex = stack.back();
    stack.pop_back();
    for (int32_t arc = net.begin(vertex); arc < net.end(vertex); ++arc) {
      const int32_t next = net.head(arc);
      if (reached[next]) continue;
      if ((backwards ? net.capacity_back(arc) : net.capacity(arc)) < least) continue;
      reached[next] = true;
      stack.push_back(next);
    }
  }
  return reached;
}

class Dinic {
 public:
  Dinic(Residual& net, int32_t source, int32_t sink)
      : net_(net), source_(source), sink_(sink), distance_(net.vertices()), next_(net.vertices()) {}

  /// Returns the maximum flow and leaves the residual network.
  int64_t run() {
    int64_t flow = 0;
    while (measure()) flow += block();
    return flow;
  }

 private:
  /// Computes distances to the sink by breadth-first search. Returns false if the source cannot
  /// reach it.
  bool measure() {
    std::ranges::fill(distance_, -1);
    distance_[sink_] = 0;
    queue_.assign(1, sink_);
    for (size_t i = 0; i < queue_.size() && distance_[source_] < 0; ++i) {
      const int32_t vertex = queue_[i];
      for (int32_t arc = net_.begin(vertex); arc < net_.end(vertex); ++arc) {
        const int32_t before = net_.head(arc);
        if (distance_[before] >= 0 || net_.capacity_back(arc) == 0) continue;
        distance_[before] = distance_[vertex] + 1;
        queue_.push_back(before);
      }
    }
    return distance_[source_] >= 0;
  }

  bool leads_on(int32_t vertex, int32_t arc) const {
    return net_.capacity(arc) > 0 && distance_[net_.head(arc)] >= 0 &&
           distance_[net_.head(arc)] + 1 == distance_[vertex];
  }

  /// Saturates all shortest paths. `next_` skips arcs that led nowhere before.
  int64_t block() {
    for (size_t v = 0; v < next_.size(); ++v) next_[v] = net_.begin(static_cast<int32_t>(v));
    int64_t total = 0;
    path_.clear();
    int32_t vertex = source_;
    for (;;) {
      if (vertex == sink_) {
        total += augment();
        vertex = path_.empty() ? source_ : net_.head(path_.back());
        continue;
      }
      int32_t& arc = next_[vertex];
      while (arc < net_.end(vertex) && !leads_on(vertex, arc)) ++arc;
      if (arc < net_.end(vertex)) {
        path_.push_back(arc);
        vertex = net_.head(arc);
      } else if (path_.empty()) {
        return total;
      } else {
        vertex = net_.tail(path_.back());
        ++next_[vertex];
        path_.pop_back();
      }
    }
  }

  /// Augments the path by its bottleneck and truncates it before the first saturated arc.
  int64_t augment() {
    int64_t flow = kInfiniteCapacity;
    for (const int32_t arc : path_) flow = std::min(flow, net_.capacity(arc));
    for (const int32_t arc : path_) net_.push(arc, flow);
    const auto full =
        std::ranges::find_if(path_, [&](int32_t arc) { return net_.capacity(arc) == 0; });
    path_.erase(full, path_.end());
    return flow;
  }

  Residual& net_;
  int32_t source_;
  int32_t sink_;
  std::vector<int32_t> distance_;  // by vertex: number of arcs to the sink, -1 if unknown
  std::vector<int32_t> next_;      // by vertex: the next arc to try
  std::vector<int32_t> queue_;
  std::vector<int32_t> path_;  // arcs from the source
};

void check(int32_t vertices, const std::vector<FlowEdge>& edges, int32_t source, int32_t sink) {
  const auto exists = [&](int32_t vertex) { return vertex >= 0 && vertex < vertices; };
  AG_CHECK(exists(source) && exists(sink) && source != sink, "source and sink");
  int64_t room = kInfiniteCapacity;
  for (const FlowEdge& edge : edges) {
    AG_CHECK(exists(edge.from) && exists(edge.to), "an edge to a vertex that is not there");
    AG_CHECK(edge.capacity >= 0 && edge.capacity <= kInfiniteCapacity, "a capacity out of range");
    if (edge.capacity == kInfiniteCapacity) continue;
    AG_CHECK(edge.capacity < room, "finite capacities that sum to infinity");
    room -= edge.capacity;
  }
}

}  // namespace

FlowCut minimum_cut(int32_t vertices, const std::vector<FlowEdge>& edges, int32_t source,
                    int32_t sink, NearestTo nearest) {
  check(vertices, edges, source, sink);
  Residual net(vertices, edges);
  if (reach(net, source, kInfiniteCapacity, /*backwards=*/false)[sink]) {
    return {kInfiniteCapacity, {}};
  }
  // As all finite capacities sum to less than infinity, no infinite edge can be saturated.
  FlowCut cut;
  cut.capacity = Dinic(net, source, sink).run();
  if (nearest == NearestTo::source) {
    cut.on_source_side = reach(net, source, 1, /*backwards=*/false);
  } else {
    cut.on_source_side = reach(net, sink, 1, /*backwards=*/true);
    cut.on_source_side.flip();
  }
  return cut;
}

}  // namespace antegrad
