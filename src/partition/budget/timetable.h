#pragma once

/// \file
/// When each operation runs and how long its values live: by a plan, and with a few changes of it.
///
/// The backward runs its operations in order. Before each of them runs what it needs and what is not there, in
/// the order of the graph, with all that these need in turn. What ran again stays until its last use; or, where
/// the plan says so, is forgotten when nothing needs it for a while, and then runs once more. This is the
/// schedule that split_at() emits (docs/budget.md).
///
/// A value that waits packed is packed right after its last use in the forward and unpacked right before its first in
/// the backward; both are steps of their own.
///
/// Changes are worked out beside the plan, in time that grows with what they move, not with the graph; they become
/// part of it or are forgotten. Not thread-safe.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "graph/ids.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

class Timetable {
 public:
  using Key = int64_t;  ///< orders all that may ever run; see key_of()
  static constexpr Key kNever = std::numeric_limits<Key>::max() / 4;
  /// From when to when a copy of a value is alive, both included.
  struct Piece {
    Key begin;
    Key end;
  };

  /// The problem must outlive it. Starts with nothing saved.
  explicit Timetable(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Plan& plan() const { return plan_; }
  /// Slot i of the backward is its operation i with what runs again before it; one more is what gradients need at the
  /// end.
  int32_t slots() const { return slots_; }

  // Keys are cells of one row for the forward, one for the start of the backward and one for each slot; each cell has
  // room for what is packed before its operation, or unpacked for it: a key each.

  /// Of an operation of the forward, there.
  Key key_of(int32_t operation) const { return width_ * (operation + 1) - 1; }
  /// Of an operation that runs again in a slot.
  Key key_of(int32_t slot, int32_t operation) const {
    return width_ * ((static_cast<Key>(slot) + 2) * (forward_count_ + 1) + operation + 1) - 1;
  }
  /// Of the slot's own operation.
  Key key_of_slot(int32_t slot) const { return key_of(slot, forward_count_); }
  Key key_of_end() const { return key_of(forward_count_); }  ///< of the forward
  Key key_of_start() const { return key_of(forward_count_ + 1); }
  /// Of the packing, when what has this key has run.
  Key key_of_pack(Key after, int32_t packing) const { return after + 1 + packing; }
  /// Of unpacking right before what has this key.
  Key key_of_unpack(Key before, int32_t packing) const { return before - (width_ - 1) + packing; }
  Key cell_of(Key key) const { return key / width_; }
  bool is_of_packing(Key key) const { return key % width_ != width_ - 1; }

  /// Schedules all anew.
  void set(const Plan& plan);
  /// Works out what the changes would do. False when that is hopeless.
  bool change(std::span<const Change> changes);
  /// Makes them, which were worked out last, part of the plan.
  void keep(std::span<const Change> changes);
  /// Changes that take more than this many picoseconds in all are hopeless from now on.
  void set_most_extra(int64_t picoseconds) { most_extra_ = picoseconds; }

  // By the plan:

  /// Where an operation of the forward runs again: slots, ascending.
  std::span<const int32_t> runs(int32_t operation) const { return runs_[at(operation)]; }
  bool in_forward(int32_t operation) const { return in_forward_[at(operation)] != 0; }
  /// Of a value of the forward, or a state.
  std::span<const Piece> pieces(int32_t value) const { return pieces_[at(value)]; }
  /// Picoseconds more than when nothing runs twice.
  int64_t extra() const { return extra_; }
  /// Whether anything in the backward needs the value.
  bool is_used(int32_t value) const;
  /// Slots that use a value, ascending.
  std::vector<int32_t> uses(int32_t value) const;

  // With the changes that were worked out last:

  /// Operations that were scheduled anew; all others run as before.
  std::span<const int32_t> changed() const { return changed_; }
  std::span<const int32_t> new_runs(int32_t operation) const {
    if (stamp_operation_[at(operation)] != stamp_) return runs_[at(operation)];
    const Range range = new_runs_[at(operation)];
    return {arena_runs_.data() + range.begin, at(range.count)};
  }
  bool new_in_forward(int32_t operation) const {
    return (stamp_operation_[at(operation)] == stamp_ ? new_in_forward_
                                                      : in_forward_)[at(operation)];
  }
  /// Of what a changed operation holds.
  std::span<const Piece> new_pieces(int32_t value) const {
    const Range range = new_pieces_[at(value)];
    return {arena_pieces_.data() + range.begin, at(range.count)};
  }
  int64_t new_extra() const { return new_extra_; }

  /// Values and, with numbers after theirs, states that operations keep from the forward to run again, and packings.
  int32_t held_count() const { return static_cast<int32_t>(pieces_.size()); }
  /// -1: none.
  int32_t state_of(int32_t operation) const { return state_of_[at(operation)]; }
  int32_t held_of(int32_t packing) const { return first_packed_ + packing; }
  /// Calls `each` with the packings of what an operation of the forward makes.
  template <class Each>
  void for_each_packing(int32_t operation, Each each) const {
    if (problem_.packings.empty()) return;
    for (const int32_t value : problem_.makes[operation]) {
      const Value& made = problem_.value(value);
      for (int32_t i = 0; i < made.packing_count; ++i) each(made.first_packing + i);
    }
  }
  /// Calls `each` with the values and the state of an operation of the forward, and what these are packed as.
  template <class Each>
  void for_each_held(int32_t operation, Each each) const {
    for (const int32_t value : problem_.makes[operation]) each(value);
    if (const int32_t state = state_of(operation); state >= 0) each(state);
    for_each_packing(operation, [&](int32_t packing) { each(held_of(packing)); });
  }

 private:
  struct Demand {
    int32_t slot;
    Key key;
  };
  struct Range {
    int32_t begin = 0;
    int32_t count = 0;
  };

  Choice choice(int32_t value) const;
  bool is_saved(int32_t value) const;
  void begin();
  void push(int32_t operation);
  int32_t packing(int32_t value) const;
  Key last_forward_use(int32_t value) const;
  void save(int32_t value, size_t k, std::vector<Piece>& pieces);
  int64_t packing_time(int32_t operation, bool now) const;
  void schedule(int32_t operation);
  void schedule_backward(int32_t operation, std::span<const int32_t> makes);
  void collect_demands(int32_t value, std::vector<Demand>& demands) const;
  void take_over();

  const Problem& problem_;
  int32_t forward_count_;
  int32_t slots_;
  Key width_;                      // of a cell of keys
  int32_t first_packed_ = 0;       // held numbers of packings
  std::vector<int32_t> state_of_;  // by operation of the forward
  int64_t most_extra_ = std::numeric_limits<int64_t>::max();

  // The plan as it is.
  Plan plan_;
  std::vector<std::vector<int32_t>> runs_;  // by operation of the forward
  std::vector<char> in_forward_;            // by operation of the forward
  std::vector<std::vector<Piece>> pieces_;  // by value, state, packing
  int64_t extra_ = 0;
  int64_t run_count_ = 0;

  // What a change would make of it: entries are valid where the stamp is that of the change.
  int32_t stamp_ = 0;
  std::vector<int32_t> stamp_choice_, stamp_operation_, stamp_queued_;
  std::vector<Choice> new_choice_;
  std::vector<Range> new_runs_;
  std::vector<char> new_in_forward_;
  std::vector<Range> new_pieces_;  // by value, state, packing
  std::vector<int32_t> arena_runs_;
  std::vector<Piece> arena_pieces_;
  std::vector<int32_t> queue_;  // heap of operations, last ones first
  std::vector<int32_t> changed_;
  std::vector<std::vector<Demand>> demands_;       // by output of the operation at hand
  std::vector<std::vector<Piece>> output_pieces_;  // same
  std::vector<std::pair<int32_t, Piece>> packed_;  // same, of those that wait packed
  int64_t new_extra_ = 0;
  int64_t new_run_count_ = 0;
};

}  // namespace antegrad::budget
