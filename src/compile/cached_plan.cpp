#include "compile/cached_plan.h"

#include <ATen/Parallel.h>
#include <antegrad/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <utility>

#include "cache/build_id.h"
#include "compile/kernel_sources.h"
#include "cost/rates_file.h"
#include "graph/analysis.h"
#include "graph/pack.h"
#include "guards/ambient.h"
#include "log/log.h"
#include "options/settings.h"
#include "options/words.h"
#include "partition/split.h"
#include "torch_compat/convert.h"
#include "torch_compat/device_model.h"

namespace antegrad::compiler {
namespace {

using nlohmann::json;

// ---- the key

// The devices of a graph, with what decides how long kernels take there and how much they need.
std::set<std::string> device_models(const Graph& joint) {
  std::set<std::string> models;
  std::set<std::string> seen;
  for (const auto& value : joint.values) {
    if (value.kind != ValueKind::tensor || value.meta.device.kind == DeviceKind::meta) continue;
    const auto device = torch_compat::to_c10_device(value.meta.device);
    if (!seen.insert(device.str()).second) continue;
    models.insert(fmt::format("{}: {}", device.str(), torch_compat::device_model(device)));
  }
  return models;
}

std::vector<std::string> settings_in_key(const Options& options) {
  std::vector<std::string_view> names;
  for (const auto& row : option_rows()) {
    if (row.in_key) names.push_back(row.name);
  }
  return settings(options, names);
}

// A graph hashes with its ids, on which plans are written, but without its name.
std::string hash_of(const Graph& joint) {
  Graph nameless = joint;
  nameless.name.clear();
  return to_string(PackedGraph(nameless).hash());
}

// Whether making a plan takes longer than reading one: something is decided, or kernels are chosen.
bool is_worth_keeping(const Graph& joint, const Options& options) {
  const bool decides = options.partition != Partitioner::as_written;
  return has_backward(joint) && (decides || options.lowering != Lowering::off);
}

// ---- what a record has besides the partitioner's own fields

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

std::string key_of_plan(const Graph& joint, const Options& options, const CacheNotes& notes) {
  return fmt::format(
      "{}"
      "antegrad {}, build {}\n"
      "graph {}\n"
      "machine {}, build {}\n"
      "devices {}\n"
      "switches {}\n"
      "options {}\n"
      "code {}\n",
      kPlanRecord, library_version(), own_build_id(), hash_of(joint), this_machine(),
      build_id_of(reinterpret_cast<const void*>(&at::get_num_threads)),
      fmt::join(device_models(joint), "; "), guards::Ambient::now().text(),
      fmt::join(settings_in_key(options), " "), fmt::join(notes.hashes, "; "));
}

CachedPlan::CachedPlan(const Graph& joint, const Options& options, const detail::HookPair* hooks) {
  CacheNotes notes;
  note_code(joint, notes);
  if (hooks != nullptr) note_hooks(*hooks, notes);
  if (!options.enable_autograd_cache) {
    use_ = {"off", "enable_autograd_cache is false"};
  } else if (!notes.bypass.empty()) {
    use_ = {"bypass", fmt::format("{}", fmt::join(notes.bypass, "; "))};
    if (options.strict_autograd_cache) {
      throw CacheError(ErrorText{"a program whose plan can be kept on disk", use_.why,
                                 "give it a cache_hash, or set strict_autograd_cache=false"});
    }
  } else if (!is_worth_keeping(joint, options)) {
    use_ = {"off", "the plan is made in less time than one is read"};
  } else {
    key_ = key_of_plan(joint, options, notes);
    folder_ = folder_of_plans(cache_directory(options.cache_dir));
    use_ = {"miss"};
  }
}

std::optional<PartitionRecord> CachedPlan::find() {
  auto found = PlanCache::of_process().find(key_, folder_);
  if (found.plan.empty()) {
    if (!found.damage.empty()) refuse(found.damage);
    return std::nullopt;
  }
  try {
    auto record = parse_record(found.plan);
    use_ = {"hit", "from " + found.from};
    log(
        Log::cache, [&] { return fmt::format("plan {} is {}", name_of_plan(key_), use_.why); },
        LogLevel::debug);
    return record;
  } catch (const Error& error) {
    refuse(error.what());
    return std::nullopt;
  }
}

void CachedPlan::refuse(const std::string& why) {
  use_ = {"miss", "the plan that is there does not do: " + why};
  log(
      Log::cache, [&] { return use_.why; }, LogLevel::warning);
}

void CachedPlan::keep(const PartitionRecord& record) {
  auto why = PlanCache::of_process().keep(key_, to_text(record), folder_);
  if (why.empty()) return;
  log(
      Log::cache, [&] { return "a plan cannot be kept: " + why; }, LogLevel::warning);
  use_.why = std::move(why);
}

std::shared_ptr<const LivePlan> CachedPlan::live(std::function<std::string()> plan) const {
  if (!active()) return nullptr;
  auto live = std::make_shared<const LivePlan>(LivePlan{key_, std::move(plan)});
  PlanCache::of_process().add(live);
  return live;
}

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
