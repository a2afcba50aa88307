#pragma once

/// \file
/// The 0-1 knapsack: chooses items with a bounded sum of weights and the largest sum of values. A
/// partition saves the chosen items and recomputes the rest.
///
/// Each solver is deterministic. Items with a value and no weight are always chosen, items without
/// value never.

#include <cstdint>
#include <string_view>
#include <vector>

#include <antegrad/partition.h>

namespace antegrad {

struct KnapsackItem {
  int64_t weight = 0;  ///< bytes, not negative
  double value = 0;    ///< time, not negative
};

struct Knapsack {
  std::vector<KnapsackItem> items;
  double capacity = 0;  ///< in bytes, not negative, not rounded
  /// The weight that BudgetSolver::dp divides into kKnapsackUnits units; above 0.
  int64_t range = 1;
};

inline constexpr int64_t kKnapsackUnits = 10000;

/// `weight` in units of a ten thousandth of `range`, rounded to the nearest, halves to even.
/// Exact; `weight` and `range` are below 2^62.
int64_t knapsack_units(int64_t weight, int64_t range);

/// By item, whether it is chosen.
///
///  - dp: the most value by weights in units. So the sum of true weights may exceed the capacity,
///    by half a unit per item; items below half a unit weigh nothing. Values are summed as
///    doubles, which is exact for integers below 2^53. Among solutions of equal value it takes the
///    one that omits later items. Time is items x units; memory is an eighth of that in bytes.
///  - greedy: by falling value per byte, the earlier item first on ties; each item that fits is
///    chosen.
///  - ilp: the most value by true weights, as exact as Cbc computes (a ten millionth of the
///    capacity). Throws OptionError if antegrad was built without Cbc or its library is missing.
std::vector<bool> solve_knapsack(const Knapsack& knapsack, BudgetSolver solver);

/// Whether BudgetSolver::ilp can be used here.
bool has_ilp_solver();
/// Throws OptionError if it cannot.
void require_ilp_solver();

}  // namespace antegrad
