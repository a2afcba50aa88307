#pragma once

/// \file
/// Partitioners, one row each. Only this file knows all of them. A new partitioner is a pair of
/// files that decide what is saved and return split_at() (split.h), and a row.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <antegrad/partition.h>

#include "cost/measurements.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/budget/carry.h"
#include "partition/hooks/packings.h"
#include "partition/partition.h"

namespace antegrad {

struct Options;

/// Everything that determines a partition, except the graph. A value that a record keeps
/// (explain/record.h).
struct PartitionChoice {
  Partitioner partitioner = Partitioner::as_written;  ///< its row names the options that it reads
  MinCutOptions min_cut = {};
  BudgetOptions budget = {};
  /// For machine_named(); empty: machine_of() the graph. Provides the times that were not measured.
  std::string machine = {};
  std::vector<int64_t> symbols = {};  ///< values of the graph's symbols, by SymbolId
  Measurements measured = {};         ///< as PartitionerRow::needs requests
  Packings packings = {};             ///< if PartitionerRow::packs
  std::vector<bool> fused = {};       ///< ByteRules::fused
  /// Whether a step returns its memory to the system; Machine::seconds_per_fresh_byte counts then.
  bool fresh_memory = false;
  /// Whether plans that this process made for other sizes of the graph may serve (budget/carry.h).
  bool carry = false;
  /// The plan that was carried over. If not empty, it is taken, and nothing is planned.
  budget::Decisions carried = {};
  /// True: the graph in the file is as captured, and run_joint_passes() precede the partition.
  /// False: only dce().
  bool simplify = true;

  ByteRules rules() const { return {symbols, 0, measured.scratch, fused}; }
  /// For graphs that are lowered: what their kernels keep in registers is not in them.
  ByteRules rules_when_lowered() const { return {symbols, 0, measured.scratch}; }
};

/// The frontier data from which a plan for a budget was chosen.
struct PlannedBudget {
  int64_t bytes = 0;               ///< the budget; a share is converted to bytes
  int64_t eager_peak = 0;          ///< the peak if all that the backward reads is saved
  int64_t smallest = 0;            ///< the smallest peak of a known plan
  double recompute_share = 0;      ///< of the time of forward and backward without recomputation
  budget::Decisions carried = {};  ///< the plan, if it was carried over from other sizes
};

struct Partitioned {
  Partition partition;
  std::optional<PlannedBudget> planned;  ///< for Partitioner::budget
};

/// The choice given by the options, without measurements.
PartitionChoice choice_of(const Options& options);
/// Replaces a share of memory by the bytes that it came to.
void fix_budget(PartitionChoice& choice, const PlannedBudget& planned);

/// Writes the options that the row reads as "settings" of a record: ["NAME=VALUE", ...].
void write_settings(const PartitionChoice& choice, nlohmann::json& record);
/// Reads them back. Throws OptionError for an option that the row does not read.
void read_settings(const nlohmann::json& record, PartitionChoice& choice);

struct PartitionerRow {
  std::string_view name;                     ///< in options and records; immortal
  std::vector<std::string_view> reads = {};  ///< names of options (options/table.h)
  bool packs = false;                        ///< whether plans may pack saved values (packings.h)
  /// Throws OptionError for options that are invalid for every graph.
  void (*check)(const PartitionChoice& choice) = [](const PartitionChoice&) {};
  /// The measurements needed on this machine.
  Needs (*needs)(const PartitionChoice& choice) = [](const PartitionChoice&) { return Needs(); };
  /// The joint graph is verified, simplified and has a backward.
  Partitioned (*partition)(Graph joint, const PartitionChoice& choice) = nullptr;
  /// The partitioner's own fields in a record (docs/graph-format.md). `read` runs last and throws
  /// json::exception for a damaged record.
  void (*write)(const PartitionChoice& choice, nlohmann::json& record) = write_settings;
  void (*read)(const nlohmann::json& record, PartitionChoice& choice) = read_settings;
};

const PartitionerRow& row_of(Partitioner partitioner);
/// By its name in a record. Throws GraphError, which lists all names, for an unknown one.
Partitioner recorded_partitioner(std::string_view name);
/// Adds a row with a new name. Returns the value with which a PartitionChoice selects it. Not
/// thread-safe: call it before anything is partitioned.
Partitioner register_partitioner(PartitionerRow row);

/// A graph without gradients gets default_partition(). Throws BudgetError if no plan fits,
/// OptionError for an unknown machine, and the errors of ratio_cut().
Partitioned partition_for(Graph joint, const PartitionChoice& choice);

}  // namespace antegrad
