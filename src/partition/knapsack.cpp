#include "partition/knapsack.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <antegrad/error.h>

#include "partition/knapsack_ilp.h"

namespace antegrad {
namespace {

__extension__ using Wide = __int128;

int64_t units_of_capacity(const Knapsack& knapsack) {
  const double units = knapsack.capacity / static_cast<double>(knapsack.range) * kKnapsackUnits;
  int64_t sum = 0;
  for (const KnapsackItem& item : knapsack.items) {
    sum += knapsack_units(item.weight, knapsack.range);
  }
  // A capacity above the sum of all weights is useless and costs memory.
  return units >= static_cast<double>(sum) ? sum : static_cast<int64_t>(std::nearbyint(units));
}

std::vector<bool> by_dynamic_programming(const Knapsack& knapsack) {
  const size_t count = knapsack.items.size();
  const auto width = static_cast<size_t>(units_of_capacity(knapsack)) + 1;
  std::vector<double> best(width, 0);  // by capacity: the largest value of the items so far
  std::vector<bool> takes(count * width, false);
  std::vector<size_t> weights;
  for (size_t i = 0; i < count; ++i) {
    const KnapsackItem& item = knapsack.items[i];
    weights.push_back(static_cast<size_t>(knapsack_units(item.weight, knapsack.range)));
    for (size_t units = width; units-- > weights[i];) {
      const double with = best[units - weights[i]] + item.value;
      if (with <= best[units]) continue;
      best[units] = with;
      takes[i * width + units] = true;
    }
  }
  std::vector<bool> taken(count, false);
  size_t units = width - 1;
  for (size_t i = count; i-- > 0;) {
    taken[i] = takes[i * width + units];
    if (taken[i]) units -= weights[i];
  }
  return taken;
}

std::vector<bool> by_density(const Knapsack& knapsack) {
  std::vector<size_t> order(knapsack.items.size());
  std::iota(order.begin(), order.end(), 0);
  // Infinite for an item without weight.
  const auto density = [&](size_t i) {
    return knapsack.items[i].value / static_cast<double>(knapsack.items[i].weight);
  };
  std::erase_if(order, [&](size_t i) { return !(knapsack.items[i].value > 0); });
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return density(a) > density(b); });
  std::vector<bool> taken(knapsack.items.size(), false);
  int64_t weight = 0;
  for (const size_t i : order) {
    const int64_t with = weight + knapsack.items[i].weight;
    if (static_cast<double>(with) > knapsack.capacity) continue;
    weight = with;
    taken[i] = true;
  }
  return taken;
}

std::vector<bool> by_integer_program(const Knapsack& knapsack) {
  std::vector<bool> taken(knapsack.items.size(), false);
  std::vector<size_t> open;
  std::vector<KnapsackItem> items;
  int64_t weight = 0;
  for (size_t i = 0; i < knapsack.items.size(); ++i) {
    const KnapsackItem& item = knapsack.items[i];
    taken[i] = item.weight == 0 && item.value > 0;
    if (item.weight == 0 || !(item.value > 0)) continue;
    if (static_cast<double>(item.weight) > knapsack.capacity) continue;
    open.push_back(i);
    items.push_back(item);
    weight += item.weight;
  }
  const bool all_fit = static_cast<double>(weight) <= knapsack.capacity;
  const std::vector<bool> chosen = all_fit ? std::vector<bool>(items.size(), true)
                                           : solve_knapsack_by_cbc(items, knapsack.capacity);
  for (size_t i = 0; i < open.size(); ++i) taken[open[i]] = chosen[i];
  return taken;
}

struct Solver {
  BudgetSolver solver;
  std::vector<bool> (*solve)(const Knapsack&);
};

constexpr Solver kSolvers[] = {
    {BudgetSolver::dp, by_dynamic_programming},
    {BudgetSolver::greedy, by_density},
    {BudgetSolver::ilp, by_integer_program},
};

}  // namespace

int64_t knapsack_units(int64_t weight, int64_t range) {
  const Wide product = Wide{weight} * kKnapsackUnits;
  const auto whole = static_cast<int64_t>(product / range);
  const Wide twice_rest = 2 * (product % range);
  const bool up = twice_rest > range || (twice_rest == range && whole % 2 == 1);
  return whole + (up ? 1 : 0);
}

void require_ilp_solver() {
  if (has_ilp_solver()) return;
  throw OptionError(ErrorText{
      "an antegrad that was built with Cbc, and its library, for the solver ilp", "one without",
      "install coinor-libcbc-dev and build again, or choose the solver dp or greedy"});
}

std::vector<bool> solve_knapsack(const Knapsack& knapsack, BudgetSolver solver) {
  AG_CHECK(knapsack.range > 0 && knapsack.capacity >= 0, "a knapsack without range or capacity");
  if (solver == BudgetSolver::ilp) require_ilp_solver();
  for (const Solver& row : kSolvers) {
    if (row.solver == solver) return row.solve(knapsack);
  }
  AG_CHECK(false, "a solver of no name");
  return {};
}

}  // namespace antegrad
