#include "partition/partitioner.h"

#include <set>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "explain/replay.h"
#include "graphs.h"
#include "options/table.h"
#include "options/words.h"
#include "partition/split.h"
#include "partitions.h"

namespace antegrad::testing {
namespace partitioner_test {

/// Saves each tensor smaller than `memory_budget` that has its own memory.
Partitioned save_small(Graph joint, const PartitionChoice& choice) {
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  for (const Node& node : joint.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const bool view = node.op.traits().view;
      saved[id] =
          !view && storage_bytes(joint.value(id).meta, choice.rules()) < choice.budget.bytes;
    }
  }
  return {split_at(std::move(joint), saved), {}};
}

Partitioner small() {
  static const Partitioner registered = register_partitioner({
      .name = "small",
      .reads = {"memory_budget"},
      .needs = [](const PartitionChoice&) -> Needs { return {.scratch = true}; },
      .partition = save_small,
  });
  return registered;
}

PartitionChoice small_below(int64_t bytes) {
  PartitionChoice choice;
  choice.partitioner = small();
  choice.budget.bytes = bytes;
  return choice;
}

constexpr const char* kTwoSizes = R"(inputs
  %0: f32[64, 64] primal argument 0 grad
  %9: f32[64] tangent 0
nodes
  %1: f32[64, 64] = aten::exp.default(%0)
  %2: f32[64] = aten::sum.dim_IntList(%1, [1], false, none)
  %3: f32[64] = aten::exp.default(%2)
backward
  %4: f32[64] = aten::mul.Tensor(%9, %3)
  %5: f32[64, 64] = mine::back.default(%4, %1)
outputs
  %3 result
  %5 gradient 0
)";

std::vector<ValueId> saved_by(const PartitionChoice& choice) {
  const Partition partition = partition_for(graph_of(kTwoSizes), choice).partition;
  verify_both(partition);
  std::vector<ValueId> saved;
  for (const SavedSlot& slot : partition.plan.saved) saved.push_back(slot.value);
  return saved;
}

TEST(Partitioner, ARegisteredOnePartitions) {
  EXPECT_EQ(saved_by(small_below(1024)), (std::vector<ValueId>{0, 3}));
  EXPECT_EQ(saved_by(small_below(64 * 1024)), (std::vector<ValueId>{1, 3}));
  EXPECT_TRUE(row_of(small()).needs({}).scratch);
}

TEST(Partitioner, ARegisteredOneIsRecordedWithTheOptionsThatItReads) {
  const PartitionChoice choice = small_below(1024);
  Graph graph = graph_of(kTwoSizes);
  number_nodes(graph);
  const std::string record = to_text(make_record(partition_by(graph, choice), choice));
  EXPECT_NE(record.find(R"("partitioner": "small")"), std::string::npos) << record;
  EXPECT_NE(record.find(R"("settings": ["memory_budget=1024"])"), std::string::npos) << record;
  const Replayed replayed = replay({graph, record});
  EXPECT_TRUE(replayed.differences.empty()) << to_text(replayed);
  EXPECT_EQ(replayed.then.choice.budget.bytes, 1024);
  auto other = nlohmann::json::parse(record);
  other["settings"] = {"recompute_views=false"};
  expect_error<OptionError>([&] { parse_record(other.dump()); },
                            "an option of the partitioner small");
}

TEST(Partitioner, ADamagedRecordNamesAllOfThem) {
  small();
  expect_error<GraphError>([] { recorded_partitioner("best"); },
                           "one of the words as_written, min_cut, budget, priced, small");
}

TEST(Partitioner, RowsAreInTheOrderOfTheEnum) {
  for (size_t i = 0; i < kWords<Partitioner>.size(); ++i) {
    EXPECT_EQ(row_of(static_cast<Partitioner>(i)).name, kWords<Partitioner>[i]);
  }
}

TEST(Partitioner, EachOptionOfTheStageIsRead) {
  // Options that no row reads: the partitioner itself, passes before it, the
  // cache of plans, and what hooks do.
  std::set<std::string_view> read = {"partition",
                                     "verify_graphs",
                                     "dump_dir",
                                     "disabled_passes",
                                     "joint_custom_pass",
                                     "enable_autograd_cache",
                                     "strict_autograd_cache",
                                     "remote_cache",
                                     "saved_tensors_hooks_filtering_mode",
                                     "activation_reload_prefetch",
                                     "gather_prefetch",
                                     "gather_bucket_bytes",
                                     "unsafe_allow_optimization_of_collectives"};
  for (const Partitioner partitioner :
       {Partitioner::as_written, Partitioner::min_cut, Partitioner::budget, Partitioner::priced}) {
    for (const std::string_view name : row_of(partitioner).reads) {
      EXPECT_TRUE(read.insert(option_named(name).name).second) << name;
    }
  }
  for (const OptionRow& row : option_rows()) {
    const bool partitions = (row.stages & static_cast<uint8_t>(Stage::partition)) != 0;
    EXPECT_TRUE(!partitions || read.contains(row.name)) << row.name;
  }
}

TEST(Partitioner, AsksForWhatItsOptionsNeed) {
  PartitionChoice choice;
  EXPECT_EQ(row_of(Partitioner::as_written).needs(choice), Needs());
  EXPECT_EQ(row_of(Partitioner::min_cut).needs(choice), Needs());
  EXPECT_EQ(row_of(Partitioner::budget).needs(choice), (Needs{.rates = true, .scratch = true}));
  choice.budget.profile = BudgetProfile::off;
  EXPECT_EQ(row_of(Partitioner::budget).needs(choice), (Needs{.scratch = true}));
  choice.budget.profile = BudgetProfile::measured;
  choice.min_cut.activation_memory_budget = 0.5;
  choice.min_cut.activation_memory_budget_runtime_estimator = RuntimeEstimator::profile;
  EXPECT_EQ(row_of(Partitioner::min_cut).needs(choice), (Needs{.seconds = true}));
  EXPECT_EQ(row_of(Partitioner::budget).needs(choice),
            (Needs{.seconds = true, .rates = true, .scratch = true}));
}

}  // namespace partitioner_test
}  // namespace antegrad::testing
