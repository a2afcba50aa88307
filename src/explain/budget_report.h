#pragma once

/// \file
/// Explains a plan for a memory budget: each tensor of the forward that the backward needs, what
/// the other choice would cost, and what the last bytes of the budget cost.
///
/// Times are those of the planner's machine: estimates that rank decisions. Values, no state.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "explain/pareto.h"
#include "partition/budget/planner.h"

namespace antegrad {

/// The decision for one value. Times in picoseconds.
struct BudgetValue {
  ValueId value = kNoValue;
  std::string text;     ///< "f32[8, 64]"
  std::string made_by;  ///< its operator
  int64_t bytes = 0;    ///< rounded
  /// "saved", "packed (bf16)", "recomputed", "recomputed 3x", "forgotten, 3x", "made later"
  std::string choice;
  std::string rule;             ///< budget::Reason::rule; "as_written" where there is no budget
  int64_t runs = 0;             ///< of its operation in the backward
  int64_t time = 0;             ///< what recomputation, or packing, adds to the step
  bool decided = false;         ///< the plan had a choice. The other one
  int64_t other_peak = 0;       ///< would add this to the peak
  int64_t other_extra = 0;      ///< and this to the time
  bool other_breaks = false;    ///< and would break the budget;
  bool other_hopeless = false;  ///< or would recompute again and again: not measured
};

struct BudgetRule {
  std::string rule;
  int64_t saved = 0;  ///< values
  int64_t recomputed = 0;
  int64_t saved_bytes = 0;  ///< 0 if results hold them anyway
  int64_t recomputed_bytes = 0;
  int64_t time = 0;  ///< picoseconds; the sum over all rules is BudgetReport::extra
};

/// A plan on the frontier.
struct BudgetReport {
  std::string name;  ///< of the graph
  std::string how;   ///< of the search, for the title: "quick search, times of a gpu"; may be empty
  std::optional<int64_t>
      budget;  ///< nothing: the plan without a budget, which saves all that is read
  int64_t peak = 0;
  int64_t eager_peak = 0;
  int64_t smallest_peak = 0;          ///< of all known plans
  int64_t floor = 0;                  ///< no plan gets below this
  int64_t extra = 0;                  ///< picoseconds of recomputation
  int64_t step = 0;                   ///< picoseconds of forward and backward without recomputation
  int64_t measured = 0;               ///< plans
  std::vector<BudgetValue> values;    ///< the largest first
  std::vector<BudgetRule> rules;      ///< in the order in which they occur among the values
  std::optional<ParetoPoint> faster;  ///< the next plan that takes less time and more memory
  std::optional<ParetoPoint> smaller;  ///< the next plan that takes less memory and more time
};

/// The report on a plan of this planner. `budget`: the budget it was chosen for.
BudgetReport budget_report(const budget::Planner& planner, const budget::PlanPoint& point,
                           std::optional<int64_t> budget);

/// Tables for people, with the `most` largest values.
std::string to_text(const BudgetReport& report, size_t most = 30);
/// All of it as one JSON object. Times in microseconds.
nlohmann::json to_json(const BudgetReport& report);

}  // namespace antegrad
