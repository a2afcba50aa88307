#pragma once

/// \file
/// The 0-1 knapsack: which items to take, of at most so much weight, so that their values sum to the most. A
/// partition keeps what it takes and computes the rest again.
///
/// Each solver is deterministic. Items of no weight and some value are always taken, items of no value never.

#include <cstdint>
#include <string_view>
#include <vector>

#include <antegrad/partition.h>

namespace antegrad {

struct KnapsackItem {
  int64_t weight = 0;  ///< bytes, from 0 on
  double value = 0;    ///< time, from 0 on
};

struct Knapsack {
  std::vector<KnapsackItem> items;
  double capacity = 0;  ///< in bytes, from 0 on, not rounded
  /// The weight that BudgetSolver::dp parts into kKnapsackUnits units; above 0.
  int64_t range = 1;
};

inline constexpr int64_t kKnapsackUnits = 10000;

/// So many units of a ten thousandth of `range` weigh `weight`: rounded to the nearest, and halves to the nearest
/// even number. Exact; `weight` and `range` below 2^62.
int64_t knapsack_units(int64_t weight, int64_t range);

/// By item, whether it is taken.
///
///  - dp: the most value by weights in units. So the sum of true weights may be above the capacity, by half a unit an
///    item; items of less than half a unit weigh nothing. Values are summed as doubles: exact for whole numbers
///    below 2^53. Of answers of the same value the one that leaves out later items. Items x units time, an eighth of
///    that in bytes.
///  - greedy: by value a byte, the most first, of the same the earlier; each that fits is taken.
///  - ilp: the most value by true weights, as exact as Cbc computes (a ten millionth of the capacity). Throws
///    OptionError when antegrad was built without Cbc or its library is not there.
std::vector<bool> solve_knapsack(const Knapsack& knapsack, BudgetSolver solver);

/// Whether BudgetSolver::ilp can be used here.
bool has_ilp_solver();
/// Throws OptionError when it cannot.
void require_ilp_solver();

}  // namespace antegrad
