#include "partition/priced_partition.h"

#include <string>

#include <gtest/gtest.h>

#include "cost/machine.h"
#include "explain/import_json.h"
#include "gzip/gzip.h"
#include "memory/peak.h"
#include "partition/default_partition.h"
#include "partitions.h"
#include "passes/dce.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace priced_partition_test {

PartitionChoice priced() {
  PartitionChoice choice;
  choice.partitioner = Partitioner::priced;
  return choice;
}

Partition partition_of(const Graph& joint, const PartitionChoice& choice = priced()) {
  return partition_for(joint, choice).partition;
}

// Layers of a product with a weight, plus a bias, and a function of it. The backward reads the sums
// and the function's results; it reads the bias if `reads_bias`.
struct Layers {
  Graph graph;
  std::vector<ValueId> sums, functions;
};

Layers layers(int64_t size, bool reads_bias = true) {
  const TensorMeta square = dense({size, size});
  JointGraph graph("layers");
  Layers made;
  const ValueId weight = graph.primal(square), bias = graph.primal(square);
  ValueId row = graph.primal(square);
  for (int i = 0; i < 4; ++i) {
    const ValueId product = graph.call("aten::mm.default", {row, weight}, square);
    made.sums.push_back(product);
    row = graph.call("aten::mul.Tensor", {product, bias}, square);
    made.functions.push_back(row);
  }
  const ValueId last = graph.call("aten::mm.default", {row, weight}, square);
  graph.result(last);
  ValueId gradient = graph.tangent(0, square);
  graph.begin_backward();
  for (int i = 3; i >= 0; --i) {
    gradient = graph.call("aten::mm.default", {gradient, made.functions[i]}, square);
    gradient = graph.call("aten::mul.Tensor", {gradient, made.sums[i]}, square);
  }
  if (reads_bias) gradient = graph.call("aten::mul.Tensor", {gradient, bias}, square);
  graph.gradient(2, gradient);
  made.graph = graph.finish();
  verify(made.graph);
  return made;
}

using Values = std::vector<ValueId>;

// In the order of the graph.
Values saved_intermediates(const Graph& joint, const PartitionChoice& choice = priced()) {
  const Partition partition = partition_of(joint, choice);
  verify_both(partition);
  Values found;
  for (const SavedSlot& slot : partition.plan.saved) {
    if (!slot.held_by_caller()) found.push_back(slot.value);
  }
  return found;
}

Values all_of(const Layers& made) {
  Values all;
  for (size_t i = 0; i < made.sums.size(); ++i) {
    all.push_back(made.sums[i]);
    all.push_back(made.functions[i]);
  }
  return all;
}

TEST(PricedPartition, ProductsAreSavedAndCheapFunctionsOfThemAreNot) {
  const Layers made = layers(1024);
  EXPECT_EQ(saved_intermediates(made.graph), made.sums);
}

TEST(PricedPartition, ACallTakesLongerThanAFewBytesCost) {
  const Layers made = layers(8);
  EXPECT_EQ(saved_intermediates(made.graph), all_of(made));
}

TEST(PricedPartition, MeasuredTimesDecide) {
  const Layers made = layers(1024);
  PartitionChoice choice = priced();
  choice.measured.seconds.assign(made.graph.nodes.size(), 1e-2);  // 4 MiB cost 0.2 ms
  EXPECT_EQ(saved_intermediates(made.graph, choice), all_of(made));
}

// Eager mode lets the caller change a tensor that its backward does not read.
TEST(PricedPartition, TheBackwardReadsNoMoreOfTheCallersTensors) {
  const Layers made = layers(1024, /*reads_bias=*/false);
  EXPECT_EQ(saved_intermediates(made.graph), all_of(made));
}

// A residual stream. The backward reads the sums and cheap functions of them. The branches read a
// bias that the backward does not read, so they cannot run again; saving them would cost as much as
// the sums do.
TEST(PricedPartition, SumsAreSavedAndNotTheBranchesThatTheyAdd) {
  const TensorMeta square = dense({1024, 1024});
  JointGraph graph("residual");
  const ValueId weight = graph.primal(square), bias = graph.primal(square);
  ValueId sum = graph.call("aten::mm.default", {graph.primal(square), weight}, square);
  Values sums = {sum}, functions;
  for (int i = 0; i < 4; ++i) {
    functions.push_back(graph.call("aten::mul.Tensor", {sum, sum}, square));
    const ValueId product = graph.call("aten::mm.default", {functions.back(), weight}, square);
    const ValueId branch = graph.call("aten::mul.Tensor", {product, bias}, square);
    sum = graph.call("aten::mul.Tensor", {sum, branch}, square);
    sums.push_back(sum);
  }
  graph.result(graph.call("aten::mm.default", {sum, weight}, square));
  ValueId gradient = graph.tangent(0, square);
  graph.begin_backward();
  for (int i = 3; i >= 0; --i) {
    gradient = graph.call("aten::mm.default", {gradient, functions[i]}, square);
    gradient = graph.call("aten::mul.Tensor", {gradient, sums[i]}, square);
  }
  graph.gradient(0, gradient);
  const Graph joint = graph.finish();
  verify(joint);
  sums.pop_back();  // the backward reads no function of the last one
  EXPECT_EQ(saved_intermediates(joint), sums);
}

TEST(PricedPartition, CheckpointsSayWhatIsRecomputed) {
  Layers made = layers(1024);
  made.graph.blocks = {-1};
  for (const ValueId id : made.functions) {
    Node& node = made.graph.nodes[producers(made.graph)[id]];
    node.block = 0;
    node.recompute = Recompute::must_save;
  }
  EXPECT_EQ(saved_intermediates(made.graph), all_of(made));
}

int64_t saved_bytes(const Partition& partition) {
  int64_t bytes = 0;
  for (const SavedSlot& slot : partition.plan.saved) {
    if (!slot.held_by_caller()) bytes += slot.bytes.evaluate({});
  }
  return bytes;
}

// Of the nodes of the forward that the backward runs again, or runs alone.
double seconds_of_forward_nodes(const Graph& graph, const Machine& machine) {
  const auto seconds = node_seconds(graph, {}, machine);
  double sum = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (graph.nodes[i].phase == Phase::forward) sum += seconds[i];
  }
  return sum;
}

// No plan costs more, as counted here, than the one that saves all; none has a higher peak.
TEST(PricedPartition, PaysForItselfOnEachGraph) {
  const Machine& machine = machine_named("cpu");
  const double price = 1 / machine.bytes_per_second + machine.seconds_per_fresh_byte;
  const auto cost = [&](const Partition& partition) {
    return price * static_cast<double>(saved_bytes(partition)) +
           seconds_of_forward_nodes(partition.forward, machine) +
           seconds_of_forward_nodes(partition.backward, machine);
  };
  int cheaper = 0;
  for (const char* name : {"bert6", "gpt2_small", "gpt4_drop", "llama8", "lstm64", "mlp24"}) {
    SCOPED_TRACE(name);
    const std::string file = std::string(ANTEGRAD_TEST_DATA) + "/joint/" + name + ".json.gz";
    const Graph joint = dce(import_json(read_maybe_gzipped(file), file).graph);
    PartitionChoice choice = priced();
    choice.machine = "cpu";
    const Partition found = partition_of(joint, choice), all = default_partition(joint);
    verify_both(found);
    EXPECT_LE(simulate(found, {}).peak_bytes, simulate(all, {}).peak_bytes);
    EXPECT_LE(cost(found), cost(all) * 1.0001);
    cheaper += saved_bytes(found) < saved_bytes(all) * 0.9;
  }
  EXPECT_GE(cheaper, 4);
}

}  // namespace priced_partition_test
}  // namespace antegrad::testing
