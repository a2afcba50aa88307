#include "fusion/contracted_order.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

#include <antegrad/error.h>

namespace antegrad::testing {
namespace contracted_order_test {

TEST(ContractedOrder, AnEdgeIsContractedUnlessAnotherPathLeadsAlong) {
  // 0 -> 1 -> 3 and 0 -> 3; 2 stands alone.
  ContractedOrder order(4, {{0, 1}, {1, 3}, {0, 3}});
  EXPECT_FALSE(order.contract(0, 3));
  EXPECT_TRUE(order.contract(1, 3));
  EXPECT_EQ(order.find(1), order.find(3));
  EXPECT_TRUE(order.contract(0, 3));
  EXPECT_TRUE(order.contract(0, 1));
  EXPECT_NE(order.find(2), order.find(0));
}

TEST(ContractedOrder, WhatIsToLieBetweenKeepsTwoApart) {
  ContractedOrder order(3, {{0, 1}, {0, 1, true}, {1, 2}});
  EXPECT_FALSE(order.contract(0, 1));
  EXPECT_TRUE(order.contract(1, 2));
  EXPECT_FALSE(order.contract(0, 2));
}

TEST(ContractedOrder, RefusesWhatWouldTakeTooLong) {
  std::vector<OrderEdge> edges = {{0, 99}};
  for (int32_t i = 1; i < 99; ++i) edges.push_back({0, i});
  ContractedOrder thorough(100, edges);
  EXPECT_TRUE(thorough.contract(0, 99));
  ContractedOrder hasty(100, edges, 10);
  EXPECT_FALSE(hasty.contract(0, 99));
}

TEST(ContractedOrder, AnEdgeBackIsAnError) {
  EXPECT_THROW(ContractedOrder(2, {{1, 0}}), InternalError);
  EXPECT_THROW(ContractedOrder(2, {{1, 1}}), InternalError);
  EXPECT_THROW(ContractedOrder(2, {{0, 2}}), InternalError);
}

/// A simple contraction: the groups, and the edges between them.
class BruteForce {
 public:
  BruteForce(int32_t vertices, std::vector<OrderEdge> edges) : edges_(std::move(edges)) {
    for (int32_t v = 0; v < vertices; ++v) group_.push_back(v);
  }

  bool contract(int32_t a, int32_t b) {
    if (group_[a] == group_[b]) return true;
    std::vector<int32_t> joined = group_;
    for (int32_t& group : joined) {
      if (group == group_[b]) group = group_[a];
    }
    for (const OrderEdge& edge : edges_) {
      if (edge.between && joined[edge.from] == joined[edge.to]) return false;
    }
    if (!is_acyclic(joined)) return false;
    group_ = joined;
    return true;
  }

  bool same(int32_t a, int32_t b) const { return group_[a] == group_[b]; }

 private:
  /// Removes groups without incoming edges until none are left.
  bool is_acyclic(const std::vector<int32_t>& group) const {
    std::set<int32_t> left(group.begin(), group.end());
    for (;;) {
      std::set<int32_t> led_to;
      for (const OrderEdge& edge : edges_) {
        const bool inside = group[edge.from] == group[edge.to];
        if (!inside && left.contains(group[edge.from])) led_to.insert(group[edge.to]);
      }
      std::set<int32_t> rest;
      for (const int32_t g : left) {
        if (led_to.contains(g)) rest.insert(g);
      }
      if (rest.empty()) return true;
      if (rest == left) return false;
      left = rest;
    }
  }

  std::vector<OrderEdge> edges_;
  std::vector<int32_t> group_;
};

TEST(ContractedOrder, DoesOnRandomGraphsWhatBruteForceDoes) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int32_t>(random() % n); };
    const int32_t vertices = 2 + below(12);
    std::vector<OrderEdge> edges;
    for (int32_t i = 0, count = below(3 * vertices); i < count; ++i) {
      const int32_t to = 1 + below(vertices - 1);
      edges.push_back({below(to), to, below(8) == 0});
    }
    if (edges.empty()) continue;
    ContractedOrder order(vertices, edges);
    BruteForce brute(vertices, edges);
    for (int32_t i = 0; i < 3 * vertices; ++i) {
      const OrderEdge& edge = edges[below(static_cast<int64_t>(edges.size()))];
      ASSERT_EQ(order.contract(edge.from, edge.to), brute.contract(edge.from, edge.to))
          << "seed " << seed << ", step " << i;
    }
    for (const OrderEdge& edge : edges) {
      ASSERT_EQ(order.find(edge.from) == order.find(edge.to), brute.same(edge.from, edge.to));
      if (order.find(edge.from) == order.find(edge.to)) continue;
      ASSERT_LT(order.position(edge.from), order.position(edge.to)) << "seed " << seed;
    }
  }
}

}  // namespace contracted_order_test
}  // namespace antegrad::testing
