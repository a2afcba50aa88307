#pragma once

/// \file
/// What the subcommands about memory budgets share: their options, and from a file to a planner.

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
  std::string budget;  ///< "200MiB", "50%"; empty: none
  std::string effort = "quick";
  std::string machine;  ///< empty: that of the graph's tensors
  bool as_is = false;
  std::vector<std::string> symbols;
};

/// Adds FILE, --budget, --effort, --machine, --as-is and --symbol.
void add_plan_options(CLI::App& command, PlanOptions& options);
/// Adds all of these but FILE.
void add_budget_options(CLI::App& command, PlanOptions& options);

/// Whether plans may pack values as the record in the file says (PartitionChoice::packings).
enum class Packing : bool { no, as_recorded };

/// A joint graph, simplified, and its frontier. Stays where it is: the planner refers to the graph.
class Planned {
 public:
  /// Reads, simplifies and plans; shows progress on a terminal. Throws UsageError for options,
  /// GraphError for a graph that is not joint.
  explicit Planned(const PlanOptions& options, Packing packing = Packing::no);
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;

  const Graph& captured() const { return captured_; }  ///< as in the file
  const Graph& joint() const { return joint_; }
  const ByteRules& rules() const { return rules_; }
  const budget::Planner& planner() const { return *planner_; }
  /// In bytes; nothing when none was asked for.
  std::optional<int64_t> budget() const { return budget_; }
  /// The plan for the budget, or that without one. Throws BudgetError.
  budget::PlanPoint point() const;
  /// With a budget.
  PartitionChoice choice() const;
  /// "quick search, times of a gpu", "..., packing by bf16"
  std::string how() const;

 private:
  Graph captured_;
  Graph joint_;
  ByteRules rules_;
  BudgetEffort effort_;
  std::string machine_;
  bool simplify_;
  Packings packings_;
  std::unique_ptr<budget::Planner> planner_;
  std::optional<int64_t> budget_;
};

/// A verified joint graph with numbered nodes, and its record. Throws GraphError for another one.
GraphFile read_joint_file(const std::string& file);
Graph read_joint_graph(const std::string& file);
/// What partitions start from.
Graph simplified(Graph joint, bool as_is);

}  // namespace antegrad::cli
