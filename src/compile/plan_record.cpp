#include "compile/plan_record.h"

#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "options/words.h"
#include "partition/split.h"

namespace antegrad::compiler {
namespace {

using nlohmann::json;

// What a record has besides the partitioner's own fields.

json json_of(const Schedule& schedule) {
  return {{"planned", schedule.planned}, {"forget", schedule.forget}};
}

json json_of(const LoweringRules& rules) {
  auto large = json::array();
  for (const auto& [ids, apart] : rules.too_large) large.push_back({ids, apart});
  return {{"lowering", word_of(rules.lowering)},
          {"copied_products", rules.copied_products},
          {"too_large", std::move(large)}};
}

json json_of(const PlannedBudget& budget) {
  return {{"bytes", budget.bytes},
          {"eager_peak", budget.eager_peak},
          {"smallest", budget.smallest},
          {"recompute_share", budget.recompute_share}};
}

void read(const json& object, Schedule& schedule) {
  schedule.planned = object.at("planned").get<bool>();
  object.at("forget").get_to(schedule.forget);
}

void read(const json& object, LoweringRules& rules) {
  const auto word = object.at("lowering").get<std::string>();
  const auto lowering = from_word<Lowering>(word);
  if (!lowering) throw GraphError(ErrorText{"a word of the option lowering", word, ""});
  rules.lowering = *lowering;
  rules.copied_products = object.at("copied_products").get<bool>();
  for (const auto& entry : object.at("too_large")) {
    rules.too_large[entry.at(0).get<std::vector<int32_t>>()] = entry.at(1).get<int32_t>();
  }
}

PlannedBudget budget_from(const json& object) {
  return {.bytes = object.at("bytes").get<int64_t>(),
          .eager_peak = object.at("eager_peak").get<int64_t>(),
          .smallest = object.at("smallest").get<int64_t>(),
          .recompute_share = object.at("recompute_share").get<double>()};
}

// All that follows from a plan, in words.
std::string what_it_does(const PartitionRecord& record) {
  const auto number = [](ValueId id) { return id.number(); };
  std::string again;
  for (const auto& [id, runs] : record.recomputed)
    again += fmt::format(" {}x{}", id.number(), runs);
  return fmt::format("saves {}, recomputes{} and takes {} bytes",
                     fmt::join(record.saved | std::views::transform(number), " "), again,
                     record.peak);
}

IdMap<ValueId, bool> flags_of(const std::vector<ValueId>& saved, const Graph& joint) {
  IdMap<ValueId, bool> flags(joint.values.size(), false);
  for (const auto id : saved) {
    if (!id.valid() || id.index() >= joint.values.size()) {
      throw GraphError(ErrorText{fmt::format("one of {} values", joint.values.size()),
                                 fmt::format("%{}", to_string(id)), ""});
    }
    flags[id] = true;
  }
  return flags;
}

}  // namespace

PartitionRecord record_of(const PlannedPartition& planned) {
  auto record = make_record(planned.partition, planned.choice);
  record.more["schedule"] = json_of(planned.partition.schedule);
  record.more["kernels"] = json_of(planned.lowering);
  if (planned.budget) record.more["planned"] = json_of(*planned.budget);
  return record;
}

PlannedPartition planned_again(const PartitionRecord& record, Graph joint, const Options& options,
                               const LoweringRules& lowering,
                               const std::shared_ptr<const detail::HookPair>& hooks,
                               int32_t first_node, const PassContext& passes) {
  PlannedPartition planned;
  planned.choice = record.choice;
  planned.lowering = lowering;
  planned.choice.budget.compressors = options.budget.compressors;
  Schedule schedule;
  try {
    read(record.more.at("schedule"), schedule);
    read(record.more.at("kernels"), planned.lowering);
    if (const auto it = record.more.find("planned"); it != record.more.end()) {
      planned.budget = budget_from(*it);
    }
  } catch (const json::exception& error) {
    throw GraphError(ErrorText{"a plan as this version writes it", error.what(), ""});
  }
  const auto saved = flags_of(record.saved, joint);
  const auto nodes = joint.nodes.size();
  planned.partition = run_pass(
      "split", nodes, [&] { return split_at(std::move(joint), saved, schedule); }, passes);
  planned.partition.packed = record.packed;
  const auto again = make_record(planned.partition, planned.choice);
  if (what_it_does(again) != what_it_does(record)) {
    throw GraphError(
        ErrorText{"a plan that " + what_it_does(record), "one that " + what_it_does(again), ""});
  }
  capture_hooks_of(planned, options, hooks, first_node);
  return planned;
}

}  // namespace antegrad::compiler
