#pragma once

/// \file
/// Lower bounds on the cost of all plans, and of all plans that agree with some decisions. Used by
/// the search for a best plan.
///
/// Two plans enclose everything that the open values may become. In one they are saved, and
/// operations are recomputed as late as they ever are. In the other they are recomputed, and
/// operations run as early as they ever do. Whatever is alive, and whichever steps exist, in
/// everything between the two, counts. If nothing is open the two are the same and the bounds
/// equal the plan's measure. So they are an independent check of the simulator.
///
/// (The plan in which open values take no memory is not a bound: recomputing one more value moves
/// others to an earlier slot, where there may be more room for what they need.)

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "partition/budget/plan.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

/// Bytes that no plan gets below: the inputs and outputs of one operation, with results, tangents
/// and the gradients before it.
int64_t peak_floor(const Problem& problem);

struct Bound {
  int64_t peak = 0;
  int64_t extra = 0;  ///< picoseconds, as in Measure
};

class Bounds {
 public:
  /// The problem must outlive it.
  explicit Bounds(const Problem& problem);

  /// Bounds of all plans without windows in which open values (kOpen) are decided. `extra` is that
  /// of plans within the budget.
  Bound of(const Plan& decided, int64_t budget = std::numeric_limits<int64_t>::max());

  // About the last decisions:

  /// Whether some plan among them needs the value in the backward, so that its decision matters.
  bool may_be_needed(int32_t value) const { return needs_[value].first_possible < kNever; }
  /// Whether all of them do.
  bool is_needed(int32_t value) const { return needs_[value].first_sure < kNever; }

 private:
  using Slot = int32_t;
  using Key = int32_t;  ///< orders all steps, as in the simulator
  static constexpr Slot kNever = std::numeric_limits<Slot>::max();

  /// When the backward needs a value: first in a slot between `first_possible` and `first_sure`,
  /// last at `last_sure` or later.
  struct Need {
    Slot first_possible = kNever;
    Slot first_sure = kNever;
    Key last_sure = -1;
  };

  Key key_of(Slot slot, int32_t operation) const {
    return (slot + 2) * (forward_count_ + 1) + operation;
  }
  Key last_key() const { return static_cast<Key>(live_.size()) - 1; }
  bool may_run_again(int32_t value, Choice choice) const {
    return !problem_.value(value).result && !problem_.value(value).always_saved &&
           (choice != kSave || problem_.value(value).never_saved);
  }
  void hold(Key begin, Key end, int64_t bytes) {
    if (end < begin) return;
    live_[begin] += bytes;
    if (end < last_key()) live_[end + 1] -= bytes;
  }
  void find_needs(int32_t value);
  void find_runs(const Plan& decided);
  void hold_values(const Plan& decided);
  int64_t extra_of_runs() const;
  int64_t extra_to_fit(int64_t budget);

  const Problem& problem_;
  int32_t forward_count_;
  Slot slots_;                ///< of the backward, one more for gradients that the forward makes
  std::vector<Need> direct_;  // by value: of the backward's own operations
  std::vector<int64_t> fixed_live_;  // by key, differences: tangents and values of the backward
  std::vector<char> fixed_steps_;    // by key
  std::vector<char> runs_once_;      // by operation of the forward: runs at least once, in any plan
  std::vector<int32_t> by_price_;    // choices, by rising time per byte
  std::vector<double> prices_;  // by value: picoseconds of its operation per byte of its outputs

  // For the current decisions.
  std::vector<Need> needs_;  // by value
  // by operation of the forward: slots between which it is recomputed
  std::vector<Slot> early_, late_;
  std::vector<Slot> last_;            // the same: a slot not after its last run
  std::vector<char> surely_forward_;  // by operation of the forward
  std::vector<int64_t> live_;         // by key
  std::vector<char> steps_;           // by key
  /// The interval in which an open value takes memory only if it is saved.
  struct Gap {
    int32_t value;
    Key begin;
    Key end;
  };
  std::vector<Gap> gaps_;        // in the order of by_price_
  std::vector<Gap> gap_of_;      // by value
  std::vector<int64_t> filled_;  // by key: bytes of all gaps
};

}  // namespace antegrad::budget
