#pragma once

/// \file
/// The cost of a plan: what is alive when, and how long it takes.
///
/// The simulator holds one plan and computes the effect of changing a few of its values (probe()),
/// in time that grows with what the change moves, not with the graph. All figures are exact: bytes
/// and picoseconds as integers. Not thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "partition/budget/live_profile.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"
#include "partition/budget/timetable.h"

namespace antegrad::budget {

struct Step {
  int32_t operation;  ///< -1: the end of the forward, the start of the backward, or a packing
  int32_t slot;       ///< of the backward (Timetable::slots()); -1: the forward
  int64_t live;       ///< bytes while it runs
};

class Simulator {
 public:
  /// The problem must outlive it. Starts with nothing saved and no budget.
  explicit Simulator(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Plan& plan() const { return timetable_.plan(); }
  /// The schedule of the plan.
  const Timetable& timetable() const { return timetable_; }
  /// Sets the budget against which excess is counted.
  void set_budget(int64_t bytes);
  /// Changes that add more than this many picoseconds in total are treated as hopeless from now
  /// on.
  void set_most_extra(int64_t picoseconds) { timetable_.set_most_extra(picoseconds); }

  Measure set(const Plan& plan);
  Measure measure() const { return measure_; }
  /// The measure of the plan with these changes.
  Measure probe(std::span<const Change> changes);
  Measure probe(Change change) { return probe(std::span(&change, 1)); }
  /// Changes the plan.
  Measure apply(std::span<const Change> changes);
  Measure apply(Change change) { return apply(std::span(&change, 1)); }

  /// Grows with the work of all calls; the same on every machine.
  int64_t work() const { return work_; }

  /// In order of execution.
  std::vector<Step> steps() const;

 private:
  using Key = Timetable::Key;
  using Piece = Timetable::Piece;
  enum class EventKind : uint8_t { bytes, step_goes, step_comes };
  /// A change of live bytes at a moment. `pos` is twice the key, plus one for after it.
  struct Event {
    Key pos;
    double bytes;  ///< added bytes; for an added step, what it takes while it runs
    EventKind kind;
  };

  double scratch(int32_t operation) const {
    return static_cast<double>(problem_.operation(operation).scratch);
  }

  double bytes_in(int32_t value, Piece piece) const;
  void add_static_lives();
  bool work_out(std::span<const Change> changes);
  void add_end(Key end, double bytes);
  void add_piece(Piece piece, double bytes);
  void compare_pieces(int32_t value);
  template <class Comes, class Goes>
  void compare_packings(int32_t operation, Comes comes, Goes goes);
  void compare_runs(int32_t operation);
  Measure evaluate();
  int32_t step_of(Key key) const;
  void list_forward();
  void list_steps();
  void rebuild();
  LiveProfile::Load whole() const;

  const Problem& problem_;
  int32_t forward_count_;
  int32_t slots_;
  Timetable timetable_;
  LiveProfile profile_;
  Measure measure_;
  int64_t work_ = 0;
  std::vector<double> bytes_;                   // by value, state, packing; if saved
  std::vector<int32_t> moving_;                 // values of the forward with bytes, states
  std::vector<double> slot_made_, slot_freed_;  // by slot: bytes of values that the backward makes

  std::vector<Key> keys_;                       // by step
  std::vector<int32_t> forward_step_;           // by operation of the forward: steps before it
  std::vector<int32_t> slot_begin_;             // by slot: its first step
  std::vector<int32_t> next_step_;              // by slot, while steps are listed
  std::vector<Key> packs_, unpacks_;            // same; of the plan
  std::vector<double> made_, scratch_, freed_;  // by step, while the profile is built
  std::vector<Event> events_;                   // of the current changes
};

}  // namespace antegrad::budget
