#include <gtest/gtest.h>

#include "memory/peak.h"
#include "partition/default_partition.h"
#include "partition/split.h"
#include "partition_checks.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/no_ops.h"
#include "passes/reinplace.h"
#include "passes/size_only_inputs.h"
#include "shrink.h"

namespace antegrad::testing {
namespace partition_fuzz_test {

/// Saves a pseudo-random choice of the candidates and recomputes the rest.
Partition random_partition(Graph joint, uint64_t seed) {
  std::mt19937_64 random(seed);
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  for (const Node& node : joint.nodes) {
    for (const ValueId output : node.outputs) {
      if (output == kNoValue || node.tokens > 0) continue;
      saved[output] = !node.op.traits().view && random() % 3 == 0;
    }
  }
  return split_at(std::move(joint), saved);
}

constexpr int kCases = 1500;
constexpr int kSize = 24;

TEST(PartitionFuzz, DefaultComputesWhatTheJointGraphComputes) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    return splits_wrongly(graph, default_partition(graph));
  });
}

TEST(PartitionFuzz, AnySavedSetComputesWhatTheJointGraphComputes) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    return splits_wrongly(graph, random_partition(graph, graph.nodes.size()));
  });
}

TEST(PartitionFuzz, DefaultRecomputesViewsOnly) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) -> std::string {
    for (const Node& node : default_partition(graph).backward.nodes) {
      if (node.phase == Phase::forward && !node.op.traits().view)
        return "recomputes " + node.op.name();
    }
    return "";
  });
}

TEST(PartitionFuzz, PassesBeforeAndAfterKeepResults) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    Partition partition = default_partition(dce(no_ops(cse(dce(size_only_inputs(graph))))));
    partition.forward = reinplace(std::move(partition.forward));
    partition.backward = reinplace(std::move(partition.backward));
    return splits_wrongly(graph, partition);
  });
}

// --- the peak simulator --------------------------------------------------------------------------

/// Runs both graphs and checks, after each node and for each allocated tensor, whether a later node
/// still needs it. Quadratic, and written without liveness.
class BruteForce {
 public:
  explicit BruteForce(const Partition& partition) : partition_(partition) {}

  std::vector<int64_t> live_at_nodes() {
    run(partition_.forward);
    enter_backward();
    run(partition_.backward);
    return live_;
  }

 private:
  struct Tensor {
    StorageId storage;  // in the graph that runs
    int64_t bytes;
    bool held;  // by the caller
  };

  static int64_t bytes(const Value& value) {
    return (span_bytes(value.meta).constant() + 63) / 64 * 64;
  }

  static bool is_of(const Graph& graph, ValueId id, StorageId storage) {
    return id != kNoValue && graph.value(id).kind == ValueKind::tensor &&
           graph.value(id).storage == storage;
  }

  static bool needed_after(const Graph& graph, size_t position, StorageId storage) {
    for (size_t i = position + 1; i < graph.nodes.size(); ++i) {
      for (const ValueId input : graph.nodes[i].inputs) {
        if (is_of(graph, input, storage)) return true;
      }
    }
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const Output& output) { return is_of(graph, output.value, storage); });
  }

  void run(const Graph& graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId output : graph.nodes[i].outputs) {
        const StorageId own(output);
        if (is_of(graph, output, own)) {
          tensors_.push_back({own, bytes(graph.value(output)), false});
        }
      }
      int64_t total = 0;
      for (const Tensor& tensor : tensors_) total += tensor.bytes;
      live_.push_back(total);
      std::erase_if(tensors_, [&](const Tensor& tensor) {
        return !tensor.held && !needed_after(graph, i, tensor.storage);
      });
    }
  }

  void enter_backward() {
    std::vector<Tensor> entering;
    for (const Tensor& tensor : tensors_) {
      Tensor next{-1, tensor.bytes, false};
      for (const Output& output : partition_.forward.outputs) {
        if (!is_of(partition_.forward, output.value, tensor.storage)) continue;
        if (output.kind == OutputKind::result) next.held = true;
        if (output.kind == OutputKind::saved) next.storage = StorageId(output.value);
      }
      if (next.held || next.storage.valid()) entering.push_back(next);
    }
    for (const Input& input : partition_.backward.inputs) {
      if (input.kind != InputKind::tangent) continue;
      entering.push_back(
          {StorageId(input.value), bytes(partition_.backward.value(input.value)), true});
    }
    tensors_ = std::move(entering);
  }

  const Partition& partition_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> live_;
};

std::string simulates_wrongly(const Partition& partition) {
  const Timeline timeline = simulate(partition);
  const std::vector<int64_t> expected = BruteForce(partition).live_at_nodes();
  if (timeline.points.size() != expected.size()) return "the number of points";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (timeline.points[i].live == expected[i]) continue;
    return "node " + std::to_string(i) + " has " + std::to_string(timeline.points[i].live) +
           " bytes and not " + std::to_string(expected[i]) + "\n" + to_text(partition.forward) +
           to_text(partition.backward);
  }
  const int64_t highest =
      expected.empty() ? 0 : *std::max_element(expected.begin(), expected.end());
  if (timeline.peak_position >= 0 && timeline.peak_bytes != highest) return "the peak";
  return timeline.peak_bytes >= highest ? "" : "the peak is below a point";
}

TEST(PeakFuzz, EqualsBruteForceForTheDefaultPartition) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    return simulates_wrongly(default_partition(graph));
  });
}

TEST(PeakFuzz, EqualsBruteForceWithRecomputationAndInPlaceNodes) {
  hold_for_random_graphs(kCases, kSize, [](const Graph& graph) {
    Partition partition = random_partition(graph, graph.nodes.size());
    partition.forward = reinplace(std::move(partition.forward));
    partition.backward = reinplace(std::move(partition.backward));
    return simulates_wrongly(partition);
  });
}

}  // namespace partition_fuzz_test
}  // namespace antegrad::testing
