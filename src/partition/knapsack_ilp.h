#pragma once

/// \file
/// The knapsack as an integer program, solved by Cbc (https://github.com/coin-or/Cbc) through its C
/// interface.

#include <vector>

#include "partition/knapsack.h"

namespace antegrad {

/// As solve_knapsack() with BudgetSolver::ilp, for items that have weight and value and that fit
/// alone. One call at a time per process.
std::vector<bool> solve_knapsack_by_cbc(const std::vector<KnapsackItem>& items, double capacity);

}  // namespace antegrad
