#include "partition/max_flow.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include <antegrad/error.h>

#include "support/long_tests.h"

namespace antegrad::testing {
namespace max_flow_test {

/// Vertex 0 is the source, the last one the sink.
struct Network {
  int32_t vertices = 2;
  std::vector<FlowEdge> edges;

  FlowCut cut(NearestTo nearest = NearestTo::sink) const {
    return minimum_cut(vertices, edges, 0, vertices - 1, nearest);
  }
};

/// The capacity of a cut; infinite if it cuts an infinite edge.
int64_t capacity_of(const Network& net, const std::vector<bool>& on_source_side) {
  int64_t sum = 0;
  for (const FlowEdge& edge : net.edges) {
    if (!on_source_side[edge.from]) continue;
    if (on_source_side[edge.to]) continue;
    if (edge.capacity == kInfiniteCapacity) return kInfiniteCapacity;
    sum += edge.capacity;
  }
  return sum;
}

TEST(MaxFlow, AChainIsCutAtItsNarrowestEdge) {
  const FlowCut cut = Network{4, {{0, 1, 5}, {1, 2, 3}, {2, 3, 4}}}.cut();
  EXPECT_EQ(cut.capacity, 3);
  EXPECT_EQ(cut.on_source_side, (std::vector<bool>{true, true, false, false}));
}

TEST(MaxFlow, OfEqualCutsTheOneNearestToTheAskedEndIsTaken) {
  const Network net{4, {{0, 1, 3}, {1, 2, 3}, {2, 3, 3}}};
  EXPECT_EQ(net.cut(NearestTo::source).on_source_side,
            (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(net.cut(NearestTo::sink).on_source_side, (std::vector<bool>{true, true, true, false}));
}

TEST(MaxFlow, FlowIsSentBackWhereTheFirstPathWasWrong) {
  // The first path found, 0-1-3-5, must be rerouted to 0-2-3-5 and 0-1-4-5.
  const Network net{6,
                    {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {1, 4, 1}, {2, 3, 1}, {3, 5, 1}, {4, 5, 1}}};
  EXPECT_EQ(net.cut().capacity, 2);
}

TEST(MaxFlow, InfiniteEdgesAreNeverCut) {
  const FlowCut cut =
      Network{4, {{0, 1, kInfiniteCapacity}, {1, 2, 7}, {2, 3, kInfiniteCapacity}}}.cut();
  EXPECT_EQ(cut.capacity, 7);
  EXPECT_EQ(cut.on_source_side, (std::vector<bool>{true, true, false, false}));
}

TEST(MaxFlow, APathOfInfiniteEdgesLeavesNoCut) {
  const FlowCut cut =
      Network{3, {{0, 1, kInfiniteCapacity}, {1, 2, kInfiniteCapacity}, {0, 2, 4}}}.cut();
  EXPECT_EQ(cut.capacity, kInfiniteCapacity);
  EXPECT_TRUE(cut.on_source_side.empty());
}

TEST(MaxFlow, WithoutAPathNothingFlows) {
  EXPECT_EQ((Network{4, {{0, 1, 5}, {2, 3, 5}, {3, 0, 5}}}.cut().capacity), 0);
}

TEST(MaxFlow, ParallelEdgesAddUpAndLoopsDoNothing) {
  EXPECT_EQ((Network{2, {{0, 1, 2}, {0, 1, 3}, {0, 0, 9}, {1, 1, 9}}}.cut().capacity), 5);
}

TEST(MaxFlow, LargeCapacitiesAreExact) {
  const int64_t large = (int64_t{1} << 58) + 1;
  const Network net{4, {{0, 1, large}, {0, 2, large}, {1, 3, large - 1}, {2, 3, large}}};
  EXPECT_EQ(net.cut().capacity, 2 * large - 1);
}

TEST(MaxFlow, WhatIsNoNetworkIsABug) {
  EXPECT_THROW((Network{2, {{0, 2, 1}}}.cut()), InternalError);
  EXPECT_THROW((Network{2, {{0, 1, -1}}}.cut()), InternalError);
  EXPECT_THROW(minimum_cut(2, {}, 1, 1), InternalError);
  const int64_t half = kInfiniteCapacity / 2;
  EXPECT_THROW((Network{2, {{0, 1, half}, {0, 1, half}}}.cut()), InternalError);
}

TEST(MaxFlow, ADeepChainNeedsNoStack) {
  Network net;
  net.vertices = 300000;
  for (int32_t v = 0; v + 1 < net.vertices; ++v) net.edges.push_back({v, v + 1, 2 + v % 7});
  EXPECT_EQ(net.cut().capacity, 2);
}

// --- against Boost.Graph and against all cuts ----------------------------------------------------

/// Sparse and dense networks, with ties, zeros and infinite edges.
Network random_network(std::mt19937_64& random, int32_t most_vertices) {
  const auto pick = [&](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  Network net;
  net.vertices = static_cast<int32_t>(pick(2, most_vertices));
  const int64_t edges = pick(0, net.vertices * pick(1, 6));
  const int64_t largest = int64_t{1} << pick(0, 40);
  const bool with_infinite = pick(0, 2) == 0;
  for (int64_t i = 0; i < edges; ++i) {
    FlowEdge edge;
    edge.from = static_cast<int32_t>(pick(0, net.vertices - 1));
    edge.to = static_cast<int32_t>(pick(0, net.vertices - 1));
    edge.capacity = with_infinite && pick(0, 5) == 0 ? kInfiniteCapacity : pick(0, largest);
    net.edges.push_back(edge);
  }
  return net;
}

/// The flow computed by Boost. Infinite capacities count as infinite as long as they do not matter.
int64_t flow_by_boost(const Network& net) {
  using namespace boost;
  using Traits = adjacency_list_traits<vecS, vecS, directedS>;
  using EdgeProperties = property<edge_capacity_t, int64_t,
                                  property<edge_residual_capacity_t, int64_t,
                                           property<edge_reverse_t, Traits::edge_descriptor>>>;
  adjacency_list<vecS, vecS, directedS, no_property, EdgeProperties> graph(
      static_cast<size_t>(net.vertices));
  const auto capacity = get(edge_capacity, graph);
  const auto reverse = get(edge_reverse, graph);
  for (const FlowEdge& edge : net.edges) {
    // Boost sums infinite capacities at the source, so infinity must be smaller there.
    const auto there =
        add_edge(static_cast<size_t>(edge.from), static_cast<size_t>(edge.to), graph);
    const auto back = add_edge(static_cast<size_t>(edge.to), static_cast<size_t>(edge.from), graph);
    put(capacity, there.first, std::min(edge.capacity, int64_t{1} << 52));
    put(capacity, back.first, 0);
    put(reverse, there.first, back.first);
    put(reverse, back.first, there.first);
  }
  return push_relabel_max_flow(graph, 0, static_cast<size_t>(net.vertices) - 1);
}

std::string text_of(const Network& net) {
  std::string text = std::to_string(net.vertices) + " vertices:";
  for (const FlowEdge& edge : net.edges) {
    text += " " + std::to_string(edge.from) + ">" + std::to_string(edge.to) + ":" +
            std::to_string(edge.capacity);
  }
  return text;
}

TEST(MaxFlow, FlowsAsMuchAsBoost) {
  const int cases = long_tests() ? 100'000 : 20'000;
  std::mt19937_64 random(1);
  int without_cut = 0;
  for (int i = 0; i < cases; ++i) {
    const Network net = random_network(random, 40);
    const int64_t expected = flow_by_boost(net);
    const FlowCut cut = net.cut(i % 2 == 0 ? NearestTo::source : NearestTo::sink);
    if (cut.capacity == kInfiniteCapacity) {
      ++without_cut;
      ASSERT_GE(expected, int64_t{1} << 52) << text_of(net);
      continue;
    }
    ASSERT_EQ(cut.capacity, expected) << text_of(net);
    ASSERT_EQ(capacity_of(net, cut.on_source_side), expected) << text_of(net);
  }
  EXPECT_GT(without_cut, 0);
  EXPECT_LT(without_cut, cases / 2);
}

TEST(MaxFlow, EveryMinimumCutLiesBetweenTheTwoNearest) {
  const int cases = long_tests() ? 20'000 : 5'000;
  std::mt19937_64 random(2);
  for (int i = 0; i < cases; ++i) {
    Network net = random_network(random, 9);
    // Small numbers make ties.
    for (FlowEdge& edge : net.edges) {
      if (edge.capacity != kInfiniteCapacity) edge.capacity %= 4;
    }
    const FlowCut first = net.cut(NearestTo::source);
    const FlowCut last = net.cut(NearestTo::sink);
    const auto vertices = static_cast<size_t>(net.vertices);
    int64_t least = kInfiniteCapacity;
    std::vector<bool> in_all(vertices, true);
    std::vector<bool> in_some(vertices, false);
    for (unsigned bits = 0; bits < 1u << (vertices - 2); ++bits) {
      std::vector<bool> side(vertices, false);
      side[0] = true;
      for (size_t v = 1; v + 1 < vertices; ++v) side[v] = ((bits >> (v - 1)) & 1u) != 0;
      const int64_t capacity = capacity_of(net, side);
      if (capacity > least || capacity == kInfiniteCapacity) continue;
      if (capacity < least) {
        least = capacity;
        in_all.assign(vertices, true);
        in_some.assign(vertices, false);
      }
      for (size_t v = 0; v < vertices; ++v) {
        in_all[v] = in_all[v] && side[v];
        in_some[v] = in_some[v] || side[v];
      }
    }
    ASSERT_EQ(first.capacity, least) << text_of(net);
    ASSERT_EQ(last.capacity, least) << text_of(net);
    if (least == kInfiniteCapacity) continue;
    // Minimum cuts are closed under union and intersection, so these two are cuts themselves.
    ASSERT_EQ(first.on_source_side, in_all) << text_of(net);
    ASSERT_EQ(last.on_source_side, in_some) << text_of(net);
  }
}

}  // namespace max_flow_test
}  // namespace antegrad::testing
