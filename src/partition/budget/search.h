#pragma once

/// \file
/// Improves a plan: greedy descent to a budget, exchanges, and search in windows.
///
/// The descent minimises the excess over the budget, summed over all steps, not the peak, which is
/// a plateau. All measured plans go to the archive. Limits count measurements, not time, so the
/// same graph gives the same plans on any machine.

#include <cstdint>
#include <random>
#include <vector>

#include "partition/budget/archive.h"
#include "partition/budget/candidates.h"
#include "partition/budget/simulator.h"

namespace antegrad::budget {

class Search {
 public:
  /// All three must outlive it. It decides the candidates.
  Search(Simulator& simulator, const Candidates& candidates, Archive& archive);

  /// Measurements so far.
  int64_t measured() const { return measured_; }
  /// Choices for values besides kSave and kRecompute; 0 for none.
  void set_window(Choice window) { window_ = window; }

  /// Searches end when the simulator's work has reached this.
  void set_work_limit(int64_t work) { work_limit_ = work; }
  bool is_spent() const { return simulator_.work() >= work_limit_; }

  Measure start(const Plan& plan, int64_t budget);

  /// Changes the simulator's plan one value at a time until nothing exceeds the budget. Returns
  /// false if it does not get there within the limit.
  bool descend(int64_t limit);
  /// For a plan within the budget: saves what gains most time, within the budget.
  void use_room(int64_t limit);
  /// For a plan within the budget: saves one more value and recomputes others, as long as this is
  /// faster.
  void exchange(int64_t limit);
  /// For a plan within the budget: undoes the decisions in a window of the forward and decides
  /// them anew, repeatedly, and keeps what is not slower. `family`: plans to take decisions from.
  void search_windows(int64_t limit, uint64_t seed, const std::vector<Plan>& family);

 private:
  struct Move {
    double score;
    int32_t value;
    Choice choice;
    int64_t stamp;
    bool operator<(const Move& other) const {
      return score != other.score ? score < other.score : value > other.value;
    }
  };

  bool goes_on(int64_t end) const { return measured_ < end && !is_spent(); }
  Measure probe(std::span<const Change> changes);
  Measure probe(Change change) { return probe(std::span(&change, 1)); }
  Measure apply(std::span<const Change> changes);
  Measure apply(Change change) { return apply(std::span(&change, 1)); }
  Choice choice(int32_t value) const { return simulator_.plan()[value]; }
  bool may_change(int32_t value) const { return allowed_.empty() || allowed_[value]; }
  template <class Each>
  void for_each_packing(int32_t value, Each each) const;
  template <class Each>
  void for_each_alternative(int32_t value, Each each) const;
  double score(const Measure& measure) const;
  bool save_a_crossing();
  void go_back_to(const Plan& plan);

  Simulator& simulator_;
  const Candidates& candidates_;
  Archive& archive_;
  std::vector<bool> allowed_;  // by value; empty: all
  Choice window_ = 0;
  int64_t measured_ = 0;
  int64_t work_limit_ = std::numeric_limits<int64_t>::max();
};

}  // namespace antegrad::budget
