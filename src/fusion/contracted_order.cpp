#include "fusion/contracted_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <antegrad/error.h>

namespace antegrad {

ContractedOrder::ContractedOrder(int32_t vertices, const std::vector<OrderEdge>& edges,
                                 int32_t limit)
    : sets_(vertices),
      position_(vertices),
      after_(vertices),
      before_(vertices),
      seen_(vertices, 0),
      limit_(limit) {
  std::iota(position_.begin(), position_.end(), 0);
  for (const OrderEdge& edge : edges) {
    AG_CHECK(edge.from >= 0 && edge.from < edge.to && edge.to < vertices, "an edge that goes back");
    after_[edge.from].push_back({edge.to, edge.between});
    before_[edge.to].push_back({edge.from, edge.between});
  }
}

bool ContractedOrder::kept_apart(int32_t from, int32_t to) {
  const bool fewer_after = after_[from].size() < before_[to].size();
  const int32_t other = fewer_after ? to : from;
  const auto& edges = fewer_after ? after_[from] : before_[to];
  return std::ranges::any_of(
      edges, [&](const Neighbour& next) { return next.between && find(next.vertex) == other; });
}

/// Collects the vertices that `start` reaches between the two positions, without `start`. Returns
/// false if it reaches `other` on another path, or if the limit is reached.
bool ContractedOrder::search(int32_t start, int32_t other, bool forward,
                             std::vector<int32_t>& found) {
  const int32_t mark = ++searches_;
  const int32_t bound = position_[other];
  seen_[start] = mark;
  int32_t looked_at = 0;
  const auto look_around = [&](int32_t vertex) {
    for (const Neighbour& next : (forward ? after_ : before_)[vertex]) {
      if (++looked_at > 8 * limit_) return false;
      const int32_t met = find(next.vertex);
      if (met == other && vertex != start) return false;
      const int32_t place = position_[met];
      if (met == other || seen_[met] == mark || (forward ? place > bound : place < bound)) continue;
      seen_[met] = mark;
      found.push_back(met);
    }
    return static_cast<int32_t>(found.size()) <= limit_;
  };
  if (!look_around(start)) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!look_around(found[i])) return false;
  }
  return true;
}

bool ContractedOrder::contract(int32_t a, int32_t b) {
  int32_t from = find(a);
  int32_t to = find(b);
  if (from == to) return true;
  if (position_[from] > position_[to]) std::swap(from, to);
  if (kept_apart(from, to)) return false;
  std::vector<int32_t> later;
  std::vector<int32_t> earlier;
  if (!search(from, to, /*forward=*/true, later)) return false;
  if (!search(to, from, /*forward=*/false, earlier)) return false;

  // Vertices that lead to `to` move before the two, and those that `from` leads to move after them,
  // each set in its old order. Together they use the same positions.
  const auto by_position = [&](int32_t x, int32_t y) { return position_[x] < position_[y]; };
  std::ranges::sort(later, by_position);
  std::ranges::sort(earlier, by_position);
  std::vector<int32_t> places = {position_[from], position_[to]};
  for (const int32_t vertex : later) places.push_back(position_[vertex]);
  for (const int32_t vertex : earlier) places.push_back(position_[vertex]);
  std::sort(places.begin(), places.end());
  size_t next = 0;
  for (const int32_t vertex : earlier) position_[vertex] = places[next++];
  const int32_t here = places[next++];
  for (const int32_t vertex : later) position_[vertex] = places[next++];
  unite(from, to, here);
  return true;
}

void ContractedOrder::unite(int32_t from, int32_t to, int32_t position) {
  const auto edges = [&](int32_t vertex) { return after_[vertex].size() + before_[vertex].size(); };
  // Merges the shorter lists into the longer ones.
  const int32_t root = edges(from) >= edges(to) ? from : to;
  const int32_t gone = root == from ? to : from;
  sets_.unite(root, gone);
  position_[root] = position;
  for (auto* lists : {&after_, &before_}) {
    std::vector<Neighbour>& kept = (*lists)[root];
    std::vector<Neighbour>& moved = (*lists)[gone];
    for (const Neighbour& next : moved) {
      if (find(next.vertex) != root) kept.push_back(next);
    }
    moved = {};
  }
}

}  // namespace antegrad
