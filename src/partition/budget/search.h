#pragma once

/// \file
/// Ways to a better plan from one that is there: greedy descent to a budget, exchanges, and search in windows.
///
/// What descends is the excess over the budget, summed over all steps, not the peak, which is a plateau. All that is
/// measured on the way goes to the archive. Limits count measurements, not time, so that the same graph gives the
/// same plans on any machine.

#include <cstdint>
#include <random>
#include <vector>

#include "partition/budget/archive.h"
#include "partition/budget/candidates.h"
#include "partition/budget/simulator.h"

namespace antegrad::budget {

class Search {
 public:
  /// All three must outlive it. Candidates are what it decides.
  Search(Simulator& simulator, const Candidates& candidates, Archive& archive);

  /// Measurements so far.
  int64_t measured() const { return measured_; }
  /// What values may become beside kSave and kRecompute; 0 for nothing.
  void set_window(Choice window) { window_ = window; }

  /// Searches end when the simulator's work has reached this.
  void set_work_limit(int64_t work) { work_limit_ = work; }
  bool is_spent() const { return simulator_.work() >= work_limit_; }

  Measure start(const Plan& plan, int64_t budget);

  /// Changes the simulator's plan one value at a time until nothing is over the budget. False when that does not
  /// come about within the limit.
  bool descend(int64_t limit);
  /// Of a plan within the budget: saves what takes least time, without exceeding it.
  void use_room(int64_t limit);
  /// Of a plan within the budget: saves one more and computes others again, while that is faster.
  void exchange(int64_t limit);
  /// Of a plan within the budget: undoes what was decided in a window of the forward and decides it anew, over and
  /// over; keeps what is not slower. `family`: plans to take decisions from.
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
  Choice choice(int32_t value) const { return simulator_.plan()[static_cast<size_t>(value)]; }
  bool may_change(int32_t value) const {
    return allowed_.empty() || allowed_[static_cast<size_t>(value)];
  }
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
