// Packings of saved values: their cost, and how plans for a memory budget use them.

#include "partition/hooks/packings.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "explain/budget_report.h"
#include "partition/budget/simulator.h"
#include "planned_graphs.h"

namespace antegrad::testing {
namespace packings_test {

using namespace budget;

const Machine& machine() {
  static const Machine cpu = machine_named("cpu");
  return cpu;
}

// 64 KiB, of which a cast leaves a quarter.
HookedTensor cast_after_a_product() {
  HookedTensor hooked;
  hooked.pack = graph_of(R"(inputs
  %0: f32[16384] primal argument 0
nodes
  %1: f32[16384] = aten::mul.Tensor(%0, %0)
  %2: i8[16384] = aten::_to_copy.default(%1, i8, none, none, none, false, none)
outputs
  %2 result
)");
  hooked.unpack = graph_of(R"(inputs
  %0: i8[16384] primal argument 0
nodes
  %1: f32[16384] = aten::_to_copy.default(%0, f32, none, none, none, false, none)
outputs
  %1 result
)");
  return hooked;
}

TEST(Packings, CostWhatTheirGraphsTake) {
  const PackCost cost = pack_cost(cast_after_a_product(), machine(), {});
  EXPECT_EQ(cost.bytes, 16384);
  // Packing: the tensor and its square, then the square and the cast. Unpacking: the cast and the
  // tensor.
  EXPECT_EQ(cost.pack_scratch, 2 * 65536 - (65536 + 16384));
  EXPECT_EQ(cost.unpack_scratch, 0);
  EXPECT_GT(cost.seconds, 0);
}

/// Packings that leave a quarter of the bytes of each layer's result and take this many seconds.
Packings quarters(const Graph& graph, double seconds, bool always = false) {
  Packings packings;
  packings.ways = {"quarter"};
  packings.always = always;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::forward) continue;
    packings.entries.push_back({node.outputs[0], 0, {4096, seconds, 0, 0}});
  }
  return packings;
}

struct Planned {
  explicit Planned(const Packings& packings)
      : planner(graph, std::vector<double>(graph.nodes.size(), 1e-6), {}, {}, packings) {}
  PlanPoint smallest() const { return planner.frontier().archive.smallest(); }
  size_t packed(const PlanPoint& point) const { return planner.partition(point).packed.size(); }

  Graph graph = PlannedGraph::prepared(chain_graph(12));
  Planner planner;
};

TEST(Packings, ArePickedWhereTheyTakeLessTimeThanToRunAgain) {
  const Graph graph = PlannedGraph::prepared(chain_graph(12));
  const Planned none{Packings()}, cheap(quarters(graph, 1e-7)), dear(quarters(graph, 1e-2));
  EXPECT_LT(cheap.smallest().peak, none.smallest().peak);
  EXPECT_EQ(none.packed(none.smallest()), 0u);
  EXPECT_GT(cheap.packed(cheap.smallest()), 0u);
  const int64_t budget = none.smallest().peak;
  EXPECT_LT(cheap.planner.pick(budget).extra, none.planner.pick(budget).extra);
  EXPECT_EQ(dear.planner.pick(budget).extra, none.planner.pick(budget).extra);
  EXPECT_EQ(dear.packed(dear.planner.pick(budget)), 0u);
  const PlanPoint eager = cheap.planner.pick(cheap.planner.frontier().eager_peak);
  EXPECT_EQ(cheap.packed(eager), 0u);  // nothing is packed without a gain
  EXPECT_EQ(eager.extra, 0);
}

TEST(Packings, ThatAreDemandedCountForAllThatIsSaved) {
  const Graph graph = PlannedGraph::prepared(chain_graph(12));
  const Planned none{Packings()}, always(quarters(graph, 1e-6, /*always=*/true));
  EXPECT_LT(always.planner.frontier().eager_peak, none.planner.frontier().eager_peak);
  const PlanPoint eager = always.planner.eager();
  EXPECT_EQ(eager.extra, 11 * 1'000'000);                       // all except the result
  EXPECT_TRUE(always.planner.partition(eager).packed.empty());  // the hooks decide, not the plan
}

// A record from another source may contain anything.
TEST(Packings, OfTooManyWaysAreRefused) {
  const Graph graph = PlannedGraph::prepared(chain_graph(3));
  Packings packings = quarters(graph, 1e-7);
  packings.entries.front().way = kMostWays;
  EXPECT_THROW(Planned{packings}, GraphError);
  packings.entries.front().way = -1;
  EXPECT_THROW(Planned{packings}, GraphError);
}

TEST(Packings, AreExplained) {
  const Graph graph = PlannedGraph::prepared(chain_graph(12));
  const Planned cheap(quarters(graph, 1e-7));
  const PlanPoint point = cheap.smallest();
  const std::string text = to_text(budget_report(cheap.planner, point, point.peak));
  EXPECT_NE(text.find("packed (quarter)"), std::string::npos) << text;
  EXPECT_NE(text.find("packed_by_plan"), std::string::npos) << text;
  for (const Decision& decision : cheap.planner.partition(point).decisions) {
    const bool packed = cheap.planner.partition(point).packed.count(decision.value) != 0;
    EXPECT_EQ(decision.rule == "packed_by_plan", packed);
  }
  // The predicted effect of the other choice equals the measure of a plan with it.
  Simulator simulator(cheap.planner.problem());
  const Measure now = simulator.set(*point.plan);
  for (const Reason& reason : cheap.planner.reasons(point)) {
    if (!is_packing(reason.choice)) continue;
    Plan plan = *point.plan;
    plan[reason.value] = kRecompute;
    Simulator other(cheap.planner.problem());
    const Measure measure = other.set(plan);
    EXPECT_EQ(measure.peak - now.peak, reason.other_peak);
    EXPECT_EQ(measure.extra - now.extra, reason.other_extra);
  }
}

}  // namespace packings_test
}  // namespace antegrad::testing
