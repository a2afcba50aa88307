// Updates of a whole step: when they run, and what they write over.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <antegrad/error.h>

#include "graph/call_plan.h"
#include "graph/parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "graphs.h"
#include "partition/default_partition.h"
#include "partition/hooks/hooks.h"
#include "partitions.h"
#include "passes/reinplace.h"

namespace antegrad::testing {
namespace early_updates_test {

// tanh(x @ w0) @ w1, whose weights get a number times their gradients added. The gradient of w0
// reads w1. Updates are behind all gradients, as they are captured.
const char* const kStep = R"(inputs
  %0: f32[4, 4] primal argument 0
  %1: f32[4, 4] primal parameter "w0" grad
  %2: f32[4, 4] primal parameter "w1" grad
  %3: f64[] primal argument 1 "n1"
  %20: f32[4, 4] tangent 0
nodes
  %4: f32[4, 4] = aten::mm.default(%0, %1)
  %5: f32[4, 4] = aten::tanh.default(%4)
  %6: f32[4, 4] = aten::mm.default(%5, %2)
backward
  %7: f32[4, 4] = aten::mm.default(%5, %20)
  %8: f32[4, 4] = aten::mm.default(%20, %2)
  %9: f32[4, 4] = aten::tanh_backward.default(%8, %5)
  %10: f32[4, 4] = aten::mm.default(%0, %9)
  %11: f32[4, 4] = aten::mul.Tensor(%1, %3)
  %12: f32[4, 4] = aten::add.Tensor(%11, %10, scalar(-1))
  %13: f32[4, 4] = aten::mul.Tensor(%2, %3)
  %14: f32[4, 4] = aten::add.Tensor(%13, %7, scalar(-1))
outputs
  %6 result grad
  %12 gradient 1 update
  %14 gradient 2 update
)";

std::vector<int32_t> results(const Graph& graph) {
  std::vector<int32_t> values;
  for (const Node& node : graph.nodes) {
    values.push_back(static_cast<int32_t>(node.outputs[0].index()));
  }
  return values;
}

TEST(EarlyUpdates, RunOnceTheirGradientIsKnownAndNobodyReadsTheOldValue) {
  const Partition partition = default_partition(graph_of(kStep));
  verify_both(partition);
  EXPECT_EQ(partition.plan.updates, (std::vector<int32_t>{1, 2}));
  // w1 is updated behind the product that reads it.
  EXPECT_EQ(results(partition.backward), (std::vector<int32_t>{7, 8, 13, 14, 9, 10, 11, 12}));
}

TEST(EarlyUpdates, WriteOverTheOldValue) {
  const Partition partition = default_partition(graph_of(kStep));
  const auto donated = in_backward(partition.backward, partition.plan.donated(), {});
  const Graph backward = reinplace(partition.backward, donated);
  verify(backward);
  for (const Output& output : backward.outputs) {
    const ValueId old = partition.forward.inputs[output.index].value;
    EXPECT_EQ(backward.value(output.value).storage, StorageId(old));
  }
}

// A new momentum that begins with the weight must not lie in the memory of the weight.
TEST(EarlyUpdates, NoOtherValueStaysInTheMemoryOfAnOldOne) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0
  %1: f32[4] primal parameter "w" grad
  %20: f32[4] tangent 0
nodes
  %2: f32[4] = aten::mul.Tensor(%0, %1)
backward
  %3: f32[4] = aten::mul.Tensor(%20, %0)
  %4: f32[4] = aten::sub.Tensor(%3, %1, scalar(1))
  %5: f32[4] = aten::add.Tensor(%1, %4, scalar(1))
  %6: f32[4] = aten::mul.Tensor(%5, %5)
outputs
  %2 result grad
  %5 gradient 0 update
  %6 gradient 1 update
)"));
  const auto donated = in_backward(partition.backward, partition.plan.donated(), {});
  const Graph backward = reinplace(partition.backward, donated);
  const auto storage = [&](ValueId id) { return backward.value(id).storage; };
  EXPECT_NE(storage(ValueId(5)), StorageId(ValueId(1)));
  EXPECT_EQ(storage(ValueId(6)), StorageId(ValueId(6)));
}

TEST(EarlyUpdates, AreWrittenInTexts) {
  const Graph graph = graph_of(kStep);
  EXPECT_NE(to_text(graph).find("gradient 1 update"), std::string::npos);
  EXPECT_EQ(to_text(parse_graph(to_text(graph))), to_text(graph));
  const CallPlan plan = default_partition(graph).plan;
  EXPECT_EQ(parse_call_plan(to_text(plan)), plan);
}

TEST(EarlyUpdates, BelongToGradients) {
  std::string text = kStep;
  text.replace(text.find("%6 result grad"), 14, "%6 result grad update");
  EXPECT_THROW(verify(graph_of(text)), InternalError);
}

}  // namespace early_updates_test
}  // namespace antegrad::testing
