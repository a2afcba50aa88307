#pragma once

/// \file
/// Shared parts of the subcommands about memory budgets: their options, and a planner made from a
/// file.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "explain/record.h"
#include "graph/graph.h"
#include "graph/graph_file.h"
#include "memory/byte_rules.h"
#include "partition/budget/planner.h"

namespace antegrad::cli {

struct PlanOptions {
  std::string file;
  std::string budget;  ///< "200MiB", "50%"; empty for none
  std::string effort = "quick";
  std::string machine;  ///< empty: that of the record, or the device of the graph's tensors
  bool as_is = false;
  std::vector<std::string> symbols;
};

/// Adds FILE, --budget, --effort, --machine, --as-is and --symbol.
void add_plan_options(CLI::App& command, PlanOptions& options);
/// Adds all of these except FILE.
void add_budget_options(CLI::App& command, PlanOptions& options);

/// Adds --partition, which excludes --budget.
void add_partition_option(CLI::App& command, std::string& partition);

/// Whether plans may pack values as the record in the file says (PartitionChoice::packings).
enum class Packing : bool { no, as_recorded };

/// A simplified joint graph and its frontier. Not movable, since the planner refers to the graph.
class Planned {
 public:
  /// Reads, simplifies and plans. Shows progress on a terminal. Throws UsageError for invalid
  /// options, GraphError for a graph that is not joint.
  explicit Planned(const PlanOptions& options, Packing packing = Packing::no);
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;

  const Graph& captured() const { return captured_; }  ///< as in the file
  const Graph& joint() const { return joint_; }
  /// As the record of the file counts memory.
  ByteRules rules() const { return choice_.rules(); }
  const budget::Planner& planner() const { return *planner_; }
  /// In bytes; nothing if no budget was given.
  std::optional<int64_t> budget() const { return budget_; }
  /// The plan for the budget, or the plan without a budget. Throws BudgetError.
  budget::PlanPoint point() const;
  /// With the budget, if there is one.
  PartitionChoice choice() const;
  /// A description such as "quick search, times of a gpu" or "..., packing by bf16".
  std::string how() const;

 private:
  Graph captured_;
  Graph joint_;
  PartitionChoice choice_;
  std::unique_ptr<budget::Planner> planner_;
  std::optional<int64_t> budget_;
};

/// A verified joint graph with numbered nodes, and its record. Throws GraphError if the graph is
/// not joint.
GraphFile read_joint_file(const std::string& file);
/// What the record says. `symbols`: NAME=NUMBER, which replace recorded values; what was measured
/// with others is dropped. `as_is`: the graph is not simplified in any case. Without a record, the
/// values of the symbols alone.
PartitionChoice recorded_choice(const GraphFile& file, const std::vector<std::string>& symbols,
                                bool as_is);
/// Lets the times of `machine` count; empty: those of the record, or of the graph's device.
void count_on(const std::string& machine, const Graph& joint, PartitionChoice& choice);

}  // namespace antegrad::cli
