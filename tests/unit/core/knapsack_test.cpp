#include "partition/knapsack.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <antegrad/error.h>

#include "partition/knapsack_ilp.h"
#include "reference_files.h"

namespace antegrad::testing {
namespace knapsack_test {

/// The total value and weight of the chosen items.
struct Sums {
  int64_t weight = 0;
  double value = 0;
};

Sums sums(const std::vector<KnapsackItem>& items, const std::vector<bool>& taken) {
  Sums found;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!taken[i]) continue;
    found.weight += items[i].weight;
    found.value += items[i].value;
  }
  return found;
}

/// The largest value of all subsets within the capacity.
double most_value(const std::vector<KnapsackItem>& items, double capacity) {
  double most = 0;
  for (uint32_t subset = 0; subset < (1u << items.size()); ++subset) {
    Sums found;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!(subset >> i & 1)) continue;
      found.weight += items[i].weight;
      found.value += items[i].value;
    }
    if (static_cast<double>(found.weight) <= capacity) most = std::max(most, found.value);
  }
  return most;
}

Knapsack random_knapsack(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  Knapsack knapsack;
  const uint64_t largest = std::vector<uint64_t>{3, 50, 100000, 1ull << 36}[random() % 4];
  int64_t sum = 0;
  for (int64_t i = 0, count = below(11); i < count; ++i) {
    knapsack.items.push_back(
        {below(largest), static_cast<double>(below(5) == 0 ? 0 : below(1000))});
    sum += knapsack.items.back().weight;
  }
  knapsack.range = 1 + sum / (1 + below(2));
  knapsack.capacity = static_cast<double>(knapsack.range) * static_cast<double>(below(101)) / 100;
  return knapsack;
}

TEST(Knapsack, UnitsAreTenThousandthsRoundedToTheNearestAndHalvesToEven) {
  EXPECT_EQ(knapsack_units(50, 100), 5000);
  EXPECT_EQ(knapsack_units(1, 20000), 0);
  EXPECT_EQ(knapsack_units(3, 20000), 2);
  EXPECT_EQ(knapsack_units(5, 20000), 2);
  EXPECT_EQ(knapsack_units(7, 20000), 4);
  EXPECT_EQ(knapsack_units(2, 30000), 1);
  EXPECT_EQ(knapsack_units(1, 30000), 0);
  EXPECT_EQ(knapsack_units(int64_t{1} << 61, int64_t{1} << 61), 10000);
}

TEST(Knapsack, DynamicProgrammingTakesTheMostByWeightsInUnits) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Knapsack knapsack = random_knapsack(seed);
    const std::vector<bool> taken = solve_knapsack(knapsack, BudgetSolver::dp);
    std::vector<KnapsackItem> in_units;
    for (const KnapsackItem& item : knapsack.items) {
      // long double holds these weights exactly.
      const long double units =
          static_cast<long double>(item.weight) * 10000 / static_cast<long double>(knapsack.range);
      in_units.push_back({static_cast<int64_t>(std::nearbyint(units)), item.value});
    }
    const double capacity =
        std::nearbyint(knapsack.capacity / static_cast<double>(knapsack.range) * 10000);
    const Sums found = sums(in_units, taken);
    ASSERT_LE(static_cast<double>(found.weight), capacity) << "seed " << seed;
    ASSERT_EQ(found.value, most_value(in_units, capacity)) << "seed " << seed;
    // True weights: rounding adds at most half a unit per item and for the capacity.
    const double unit = static_cast<double>(knapsack.range) / 10000;
    ASSERT_LE(static_cast<double>(sums(knapsack.items, taken).weight),
              knapsack.capacity + unit * (static_cast<double>(taken.size()) + 1) / 2);
  }
}

TEST(Knapsack, GreedyTakesByDensityWhatFits) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Knapsack knapsack = random_knapsack(seed);
    const std::vector<bool> taken = solve_knapsack(knapsack, BudgetSolver::greedy);
    // The same result by repeated linear scans, with cross products instead of quotients.
    std::vector<bool> expected(knapsack.items.size(), false);
    std::vector<bool> seen(knapsack.items.size(), false);
    double room = knapsack.capacity;
    for (size_t round = 0; round < seen.size(); ++round) {
      size_t best = seen.size();
      for (size_t i = 0; i < seen.size(); ++i) {
        if (seen[i] || knapsack.items[i].value == 0) continue;
        const auto denser = [&](const KnapsackItem& a, const KnapsackItem& b) {
          return static_cast<long double>(a.value) * static_cast<long double>(b.weight) >
                 static_cast<long double>(b.value) * static_cast<long double>(a.weight);
        };
        if (best == seen.size() || denser(knapsack.items[i], knapsack.items[best])) best = i;
      }
      if (best == seen.size()) break;
      seen[best] = true;
      if (static_cast<double>(knapsack.items[best].weight) > room) continue;
      room -= static_cast<double>(knapsack.items[best].weight);
      expected[best] = true;
    }
    ASSERT_EQ(taken, expected) << "seed " << seed;
  }
}

TEST(Knapsack, TheIntegerProgramTakesTheMost) {
  if (!has_ilp_solver()) GTEST_SKIP() << "built without Cbc";
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Knapsack knapsack = random_knapsack(seed);
    const std::vector<bool> taken = solve_knapsack(knapsack, BudgetSolver::ilp);
    const Sums found = sums(knapsack.items, taken);
    ASSERT_LE(static_cast<double>(found.weight), knapsack.capacity) << "seed " << seed;
    ASSERT_EQ(found.value, most_value(knapsack.items, knapsack.capacity)) << "seed " << seed;
  }
}

TEST(Knapsack, WithoutCbcTheIntegerProgramIsAnOptionError) {
  if (has_ilp_solver()) GTEST_SKIP() << "built with Cbc";
  EXPECT_THROW(require_ilp_solver(), OptionError);
  EXPECT_THROW(solve_knapsack({}, BudgetSolver::ilp), OptionError);
}

TEST(Knapsack, NothingToTakeIsNothingTaken) {
  for (const BudgetSolver solver : {BudgetSolver::dp, BudgetSolver::greedy}) {
    EXPECT_TRUE(solve_knapsack({}, solver).empty());
    // No capacity left, but one item weighs nothing, and one has no value.
    EXPECT_EQ(solve_knapsack({{{5, 1}, {0, 1}, {0, 0}}, 0, 10}, solver),
              (std::vector<bool>{false, true, false}));
  }
}

TEST(Knapsack, ManyItemsTakeSpaceForUnitsAlone) {
  Knapsack knapsack;
  for (int64_t i = 0; i < 3000; ++i) knapsack.items.push_back({1 << 20, 1.0});
  knapsack.range = int64_t{3000} << 20;
  knapsack.capacity = static_cast<double>(knapsack.range) / 2;
  const std::vector<bool> taken = solve_knapsack(knapsack, BudgetSolver::dp);
  // A third of ten units each.
  EXPECT_EQ(sums(knapsack.items, taken).value, 5000 / 3);
}

TEST(Knapsack, TakesWhatTheReferenceTakes) {
  const auto file = nlohmann::json::parse(reference_text("knapsacks.json"));
  int compared = 0;
  for (const auto& instance : file["knapsacks"]) {
    Knapsack knapsack;
    for (size_t i = 0; i < instance["weights"].size(); ++i) {
      knapsack.items.push_back({instance["weights"][i], instance["values"][i]});
    }
    knapsack.range = instance["range"];
    knapsack.capacity = instance["ratio"].get<double>() * static_cast<double>(knapsack.range);
    for (const auto& [name, solver] :
         {std::pair("dp", BudgetSolver::dp), {"greedy", BudgetSolver::greedy}}) {
      std::vector<bool> expected(knapsack.items.size(), false);
      for (const size_t i : instance[name]) expected[i] = true;
      EXPECT_EQ(solve_knapsack(knapsack, solver), expected) << name << " " << instance;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 800);
}

}  // namespace knapsack_test
}  // namespace antegrad::testing
