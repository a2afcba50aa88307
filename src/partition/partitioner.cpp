#include "partition/partitioner.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "cost/machine.h"
#include "graph/analysis.h"
#include "options/settings.h"
#include "options/words.h"
#include "partition/budget_partition.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"
#include "partition/priced_partition.h"
#include "partition/ratio_budget.h"

namespace antegrad {
namespace {

Needs needs_of_min_cut(const PartitionChoice& choice) {
  const MinCutOptions& options = choice.min_cut;
  return {.seconds =
              options.activation_memory_budget != 1 &&
              options.activation_memory_budget_runtime_estimator == RuntimeEstimator::profile};
}

Partitioned cut(Graph joint, const PartitionChoice& choice) {
  std::vector<double> seconds;
  if (needs_of_min_cut(choice).seconds) {
    seconds = node_seconds(joint, choice.symbols, choice.machine, choice.measured);
  }
  return {min_cut_partition(std::move(joint), choice.min_cut, choice.symbols, seconds), {}};
}

/// In the order of the enum.
std::deque<PartitionerRow>& rows() {
  static auto* all = new std::deque<PartitionerRow>{
      {.name = word_of(Partitioner::as_written),
       .partition = [](Graph joint, const PartitionChoice&) -> Partitioned {
         return {default_partition(std::move(joint)), {}};
       }},
      {.name = word_of(Partitioner::min_cut),
       .reads = names_of(OptionGroup::min_cut),
       .check = [](const PartitionChoice& choice) { check_ratio(choice.min_cut); },
       .needs = needs_of_min_cut,
       .partition = cut},
      budget_partitioner(),
      {.name = word_of(Partitioner::priced), .partition = priced_partition}};
  return *all;  // immortal: compilations may run at exit
}

Options options_of(const PartitionChoice& choice) {
  Options options;
  options.min_cut = choice.min_cut;
  options.budget = choice.budget;
  return options;
}

}  // namespace

PartitionChoice choice_of(const Options& options) {
  return {.partitioner = options.partition, .min_cut = options.min_cut, .budget = options.budget};
}

void fix_budget(PartitionChoice& choice, const PlannedBudget& planned) {
  choice.budget.bytes = planned.bytes;
  choice.budget.share.reset();
}

void write_settings(const PartitionChoice& choice, nlohmann::json& record) {
  const auto& reads = row_of(choice.partitioner).reads;
  if (!reads.empty()) record["settings"] = settings(options_of(choice), reads);
}

void read_settings(const nlohmann::json& record, PartitionChoice& choice) {
  const PartitionerRow& row = row_of(choice.partitioner);
  if (row.reads.empty()) return;
  Options options = options_of(choice);
  for (const auto& setting : record.at("settings").get<std::vector<std::string>>()) {
    const auto [name, value] = name_and_value(setting);
    if (std::find(row.reads.begin(), row.reads.end(), name) == row.reads.end()) {
      throw OptionError(ErrorText{fmt::format("an option of the partitioner {}", row.name),
                                  fmt::format("\"{}\"", name), ""});
    }
    set(option_named(name), options, std::string(value));
  }
  choice.min_cut = std::move(options.min_cut);
  choice.budget = std::move(options.budget);
}

const PartitionerRow& row_of(Partitioner partitioner) {
  AG_CHECK(static_cast<size_t>(partitioner) < rows().size(), "no such partitioner");
  return rows()[static_cast<size_t>(partitioner)];
}

Partitioner recorded_partitioner(std::string_view name) {
  std::vector<std::string_view> names;
  for (const PartitionerRow& row : rows()) {
    if (row.name == name) return static_cast<Partitioner>(names.size());
    names.push_back(row.name);
  }
  throw GraphError(
      ErrorText{fmt::format("one of the words {} in the record", fmt::join(names, ", ")),
                std::string(name), "was it written by a newer version?"});
}

Partitioner register_partitioner(PartitionerRow row) {
  rows().push_back(std::move(row));
  return static_cast<Partitioner>(rows().size() - 1);
}

Partitioned partition_for(Graph joint, const PartitionChoice& choice) {
  if (!has_backward(joint)) return {default_partition(std::move(joint)), {}};
  return row_of(choice.partitioner).partition(std::move(joint), choice);
}

}  // namespace antegrad
