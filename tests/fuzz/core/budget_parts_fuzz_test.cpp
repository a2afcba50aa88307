/// \file
/// Compares parts of the budget search with slow and simple implementations on random graphs.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "budget_problems.h"
#include "partition/budget/bounds.h"
#include "partition/budget/price.h"
#include "partition/budget/simulator.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace budget_parts_fuzz_test {

using namespace budget;

constexpr int kCases = 400;
constexpr int kSize = 24;

void hold_for_problems(int cases, const std::function<std::string(const Problem&)>& violation) {
  hold_for_graphs_and_networks(
      cases, kSize, [&](const Graph& graph) { return violation(problem_of(dce(graph))); });
}

Plan random_plan(const Problem& problem, std::mt19937_64& random, bool windows) {
  const Choice choices[] = {kSave, kRecompute, 2};
  Plan plan(problem.values.size());
  for (Choice& choice : plan) choice = choices[random() % (windows ? 3 : 2)];
  return plan;
}

/// Executes a plan without windows step by step and keeps the set of live values.
class SlowMachine {
 public:
  SlowMachine(const Problem& problem, const Plan& plan) : problem_(problem), plan_(plan) {
    list_backward();
    list_forward();
    run();
  }
  int64_t peak = 0;
  int64_t time = 0;
  std::vector<int64_t> live;  ///< while each step runs

 private:
  struct Todo {
    int32_t operation;  // -1: nothing runs
    bool again;
    int32_t loop = -1;  // in which it runs again
  };

  bool is_saved(int32_t v) const {
    return problem_.value(v).result || problem_.value(v).always_saved || plan_[v] == kSave;
  }
  bool of_forward(int32_t v) const { return problem_.value(v).maker < problem_.forward_count; }

  /// Lists the recomputations before each operation of the backward: its missing inputs, with their
  /// own missing inputs.
  void list_backward() {
    std::set<int32_t> there;
    const auto need = [&](const std::vector<int32_t>& values, int32_t loop) {
      std::set<int32_t> missing;
      std::vector<int32_t> open = values;
      while (!open.empty()) {
        const int32_t v = open.back();
        open.pop_back();
        if (!of_forward(v)) continue;
        if (is_saved(v)) {
          used_.insert(v);
          continue;
        }
        if (there.count(v) != 0 || !missing.insert(problem_.value(v).maker).second) continue;
        const auto reads = problem_.reads[problem_.value(v).maker];
        open.insert(open.end(), reads.begin(), reads.end());
      }
      for (const int32_t o : missing) {
        backward_.push_back({o, true, loop});
        for (const int32_t v : problem_.makes[o]) there.insert(v);
      }
    };
    const auto count = static_cast<int32_t>(problem_.operations.size());
    for (int32_t o = problem_.forward_count; o < count; ++o) {
      const auto reads = problem_.reads[o];
      need({reads.begin(), reads.end()}, problem_.loops[o - problem_.forward_count]);
      backward_.push_back({o, false});
      std::erase_if(there, [&](int32_t v) { return problem_.value(v).fused; });
    }
    std::vector<int32_t> gradients;
    for (int32_t v = 0; v < static_cast<int32_t>(problem_.values.size()); ++v) {
      if (problem_.value(v).gradient) gradients.push_back(v);
    }
    need(gradients, count);
  }

  void list_forward() {
    std::set<int32_t> wanted = used_;
    for (int32_t o = problem_.forward_count; o-- > 0;) {
      const auto makes = problem_.makes[o];
      const bool runs =
          problem_.operation(o).required ||
          std::any_of(makes.begin(), makes.end(), [&](int32_t v) { return wanted.count(v) != 0; });
      if (!runs) continue;
      forward_.insert(forward_.begin(), {o, false});
      for (const int32_t v : problem_.reads[o]) wanted.insert(v);
    }
  }

  void run() {
    std::vector<Todo> steps = forward_;
    const size_t end = steps.size();
    steps.push_back({-1, false});
    steps.push_back({-1, false});
    steps.insert(steps.end(), backward_.begin(), backward_.end());
    // Each run of an operation makes new copies. Finds the readers and the last read of each copy.
    struct Copy {
      int64_t bytes;
      size_t from, to;
    };
    std::vector<Copy> copies;
    std::set<std::pair<int32_t, int32_t>> computed;  // fused operations, by loop
    std::map<int32_t, size_t> first, latest;  // copy of a value: of the forward, of the last run
    for (size_t t = 0; t < steps.size(); ++t) {
      const int32_t o = steps[t].operation;
      if (o < 0) continue;
      if (steps[t].loop < 0 || !problem_.is_fused(o) ||
          computed.insert({o, steps[t].loop}).second) {
        time += problem_.operation(o).time;
      }
      const bool in_backward = t > end;
      for (const int32_t v : problem_.reads[o]) {
        const bool kept = !in_backward || (of_forward(v) && is_saved(v));
        Copy& copy = copies[kept ? first.at(v) : latest.at(v)];
        copy.to = std::max(copy.to, t);
      }
      for (const int32_t v : problem_.makes[o]) {
        latest[v] = copies.size();
        if (!in_backward) first[v] = copies.size();
        const bool kept = !in_backward && is_saved(v) && used_.count(v) != 0;
        if (kept && !problem_.value(v).result) time += problem_.value(v).saving_time;
        const bool passes = problem_.value(v).fused && !kept;
        copies.push_back({passes ? 0 : problem_.value(v).bytes, t, t});
        const bool returned = !steps[t].again && problem_.value(v).result;
        if (returned) copies.back().to = steps.size();
        if (problem_.value(v).written_back && !in_backward) {
          copies.back().to = std::max(copies.back().to, end);
        }
      }
      const bool last =
          std::none_of(steps.begin() + static_cast<std::ptrdiff_t>(t) + 1, steps.end(),
                       [&](const Todo& step) { return step.again && step.operation == o; });
      if (steps[t].again && last && problem_.operation(o).state_bytes > 0) {
        // The state is kept from the draw in the forward until it is drawn from again.
        const auto drawn = std::find_if(steps.begin(), steps.end(),
                                        [&](const Todo& step) { return step.operation == o; });
        copies.push_back(
            {problem_.operation(o).state_bytes, static_cast<size_t>(drawn - steps.begin()), t});
      }
    }
    for (int32_t v = 0; v < static_cast<int32_t>(problem_.values.size()); ++v) {
      if (!problem_.value(v).gradient) continue;
      const bool kept = of_forward(v) && is_saved(v);
      copies[kept ? first.at(v) : latest.at(v)].to = steps.size();
    }
    copies.push_back({problem_.tangent_bytes, end + 1, steps.size()});
    for (size_t t = 0; t < steps.size(); ++t) {
      int64_t bytes = 0;
      for (const Copy& copy : copies) bytes += copy.from <= t && t <= copy.to ? copy.bytes : 0;
      live.push_back(bytes);
      peak = std::max(peak, bytes);
    }
  }

  const Problem& problem_;
  const Plan& plan_;
  std::set<int32_t> used_;  // values of the forward that the backward reads and that are saved
  std::vector<Todo> forward_, backward_;
};

TEST(BudgetPartsFuzz, TheSimulatorSaysWhatASlowMachineDoes) {
  hold_for_problems(kCases, [](const Problem& problem) -> std::string {
    std::mt19937_64 random(problem.values.size());
    Simulator simulator(problem);
    for (int i = 0; i < 5; ++i) {
      const Plan plan = random_plan(problem, random, /*windows=*/false);
      const Measure measure = simulator.set(plan);
      const SlowMachine slow(problem, plan);
      if (measure.peak != slow.peak || problem.time + measure.extra != slow.time) {
        return std::to_string(measure.peak) + " B, " + std::to_string(measure.extra) +
               " ps more; by the slow machine " + std::to_string(slow.peak) + " B, " +
               std::to_string(slow.time - problem.time);
      }
      std::vector<int64_t> live;
      for (const budget::Step& step : simulator.steps()) live.push_back(step.live);
      if (live != slow.live) return "other bytes on the way";
    }
    return "";
  });
}

TEST(BudgetPartsFuzz, NoPlanIsBelowTheFloor) {
  hold_for_problems(kCases, [](const Problem& problem) -> std::string {
    const int64_t floor = peak_floor(problem);
    const std::vector<int32_t> choices = choices_of(problem);
    std::mt19937_64 random(problem.values.size());
    Simulator simulator(problem);
    const auto check = [&](const Plan& plan) -> std::string {
      const int64_t peak = simulator.set(plan).peak;
      return peak >= floor ? ""
                           : "a plan of " + std::to_string(peak) + " B below the floor of " +
                                 std::to_string(floor);
    };
    for (int i = 0; i < 10; ++i) {
      const std::string wrong = check(random_plan(problem, random, /*windows=*/true));
      if (!wrong.empty()) return wrong;
    }
    std::string wrong;
    if (choices.size() > 8) return wrong;
    for_each_plan(choices, Plan(problem.values.size(), kRecompute), [&](const Plan& plan) {
      if (wrong.empty()) wrong = check(plan);
    });
    return wrong;
  });
}

/// The cost of a cut: the price of the saved bytes, and the time of recomputation in addition to
/// the forward.
struct Additive {
  int64_t bytes = 0;
  int64_t time = 0;
};

Additive additive(const Problem& problem, const Plan& plan) {
  std::vector<bool> needed(problem.values.size(), false);
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    const auto readers = problem.readers[v];
    needed[v] = problem.value(v).gradient ||
                std::any_of(readers.begin(), readers.end(),
                            [&](int32_t o) { return o >= problem.forward_count; });
  }
  Additive sum;
  for (int32_t o = problem.forward_count; o-- > 0;) {
    bool again = false;
    for (const int32_t v : problem.makes[o]) {
      if (!needed[v] || !problem.is_choice(v)) continue;
      if (plan[v] == kSave) {
        sum.bytes += problem.value(v).bytes;
      } else {
        again = true;
      }
    }
    if (!again) continue;
    if (problem.operation(o).required) sum.time += problem.operation(o).time;
    for (const int32_t v : problem.reads[o]) needed[v] = true;
  }
  return sum;
}

TEST(BudgetPartsFuzz, CutsForAPriceAreTheCheapestPlans) {
  hold_for_problems(kCases, [](const Problem& problem) -> std::string {
    const std::vector<int32_t> choices = choices_of(problem);
    if (choices.size() > 10) return "";
    std::vector<Additive> all;
    for_each_plan(choices, Plan(problem.values.size(), kRecompute),
                  [&](const Plan& plan) { all.push_back(additive(problem, plan)); });
    // Prices are rounded to picoseconds, and a save costs one more.
    const auto slack = 2.0 * static_cast<double>(choices.size()) + 1;
    PriceCuts cuts(problem);
    for (const double price : {1e-2, 1e3, 1e5, 1e6, 3e6, 1e7, 1e8}) {
      const auto cost = [&](const Additive& sum) {
        return price * static_cast<double>(sum.bytes) + static_cast<double>(sum.time);
      };
      double least = cost(all[0]);
      for (const Additive& sum : all) least = std::min(least, cost(sum));
      const double found = cost(additive(problem, cuts.cut(price, cuts.bytes())));
      if (found > least + slack) {
        return "at " + std::to_string(price) + " a byte " + std::to_string(found) + ", best " +
               std::to_string(least);
      }
    }
    // A sweep goes from what saves most to what saves least.
    Additive before = additive(problem, cuts.sweep(cuts.bytes()).front());
    for (const Plan& swept : cuts.sweep(cuts.bytes())) {
      const Additive sum = additive(problem, swept);
      if (sum.bytes > before.bytes || sum.time < before.time) return "a sweep that turns round";
      before = sum;
    }
    return "";
  });
}

}  // namespace budget_parts_fuzz_test
}  // namespace antegrad::testing
