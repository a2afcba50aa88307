#pragma once

/// \file
/// The schedule of operations and the lifetimes of their values, for a plan and for a few changes
/// of it.
///
/// The backward runs its operations in order. Before each of them the operations run whose values
/// it needs and that are not in memory, in the order of the graph, with everything that these need
/// in turn. A recomputed value stays until its last use; or, if the plan says so, it is freed when
/// nothing needs it for a while, and recomputed once more. A fused value is part of each kernel
/// that reads it: it is recomputed in each slot, so that what it is made from stays instead. This
/// is the schedule that split_at() emits (docs/budget.md).
///
/// A packed value is packed right after its last use in the forward and unpacked right before its
/// first use in the backward. Both are separate steps.
///
/// Changes are computed beside the plan, in time that grows with what they move, not with the
/// graph. They are then committed or dropped. Not thread-safe.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "partition/budget/plan.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

class Timetable {
 public:
  using Key = int64_t;  ///< orders all that may ever run; see key_of()
  static constexpr Key kNever = std::numeric_limits<Key>::max() / 4;
  /// The interval in which a copy of a value is alive, both ends included.
  struct Piece {
    Key begin;
    Key end;
  };

  /// The problem must outlive it. Starts with nothing saved.
  explicit Timetable(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Plan& plan() const { return plan_; }
  /// Slot i of the backward is its operation i with the recomputation before it. One more slot has
  /// what gradients need at the end.
  int32_t slots() const { return slots_; }

  // Keys are cells of one row for the forward, one for the start of the backward and one for each
  // slot. Each cell has room for packing before its operation, or unpacking for it: one key each.

  /// Of an operation of the forward, in the forward.
  Key key_of(int32_t operation) const { return width_ * (operation + 1) - 1; }
  /// Of an operation that is recomputed in a slot.
  Key key_of(int32_t slot, int32_t operation) const {
    return width_ * ((static_cast<Key>(slot) + 2) * (forward_count_ + 1) + operation + 1) - 1;
  }
  /// Of the slot's own operation.
  Key key_of_slot(int32_t slot) const { return key_of(slot, forward_count_); }
  Key key_of_end() const { return key_of(forward_count_); }  ///< of the forward
  Key key_of_start() const { return key_of(forward_count_ + 1); }
  /// Of packing right after the step with this key.
  Key key_of_pack(Key after, int32_t packing) const { return after + 1 + packing; }
  /// Of unpacking right before the step with this key.
  Key key_of_unpack(Key before, int32_t packing) const { return before - (width_ - 1) + packing; }
  Key cell_of(Key key) const { return key / width_; }
  bool is_of_packing(Key key) const { return key % width_ != width_ - 1; }

  /// Schedules everything anew.
  void set(const Plan& plan);
  /// Computes the effect of the changes. Returns false if they are hopeless.
  bool change(std::span<const Change> changes);
  /// Commits the changes computed last.
  void keep(std::span<const Change> changes);
  /// Changes that add more than this many picoseconds in total are treated as hopeless from now
  /// on.
  void set_most_extra(int64_t picoseconds) { most_extra_ = picoseconds; }

  // For the plan:

  /// Slots in which an operation of the forward is recomputed, ascending.
  std::span<const int32_t> runs(int32_t operation) const { return runs_[operation]; }
  bool in_forward(int32_t operation) const { return in_forward_[operation] != 0; }
  /// Of a value of the forward, or a state.
  std::span<const Piece> pieces(int32_t value) const { return pieces_[value]; }
  /// Picoseconds above those without recomputation.
  int64_t extra() const { return extra_; }
  /// Whether anything in the backward needs the value.
  bool is_used(int32_t value) const;
  /// Slots that use a value, ascending.
  std::vector<int32_t> uses(int32_t value) const;

  // For the changes computed last:

  /// Operations that were scheduled anew; all others run as before.
  std::span<const int32_t> changed() const { return changed_; }
  std::span<const int32_t> new_runs(int32_t operation) const {
    if (stamp_operation_[operation] != stamp_) return runs_[operation];
    const Range range = new_runs_[operation];
    return std::span(arena_runs_).subspan(range.begin, range.count);
  }
  bool new_in_forward(int32_t operation) const {
    return (stamp_operation_[operation] == stamp_ ? new_in_forward_ : in_forward_)[operation];
  }
  /// Of the values that a changed operation holds.
  std::span<const Piece> new_pieces(int32_t value) const {
    const Range range = new_pieces_[value];
    return std::span(arena_pieces_).subspan(range.begin, range.count);
  }
  int64_t new_extra() const { return new_extra_; }

  /// Values; with numbers after theirs, states that operations keep from the forward for
  /// recomputation; and packings.
  int32_t held_count() const { return static_cast<int32_t>(pieces_.size()); }
  /// -1: none.
  int32_t state_of(int32_t operation) const { return state_of_[operation]; }
  int32_t held_of(int32_t packing) const { return first_packed_ + packing; }
  /// Calls `each` with the packings of the values of an operation of the forward.
  template <class Each>
  void for_each_packing(int32_t operation, Each each) const {
    if (problem_.packings.empty()) return;
    for (const int32_t value : problem_.makes[operation]) {
      const Value& made = problem_.value(value);
      for (int32_t i = 0; i < made.packing_count; ++i) each(made.first_packing + i);
    }
  }
  /// Calls `each` with the values and the state of an operation of the forward, and their
  /// packings.
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
  int64_t count_of(int32_t operation, std::span<const int32_t> slots) const;
  void save(int32_t value, size_t k, std::vector<Piece>& pieces);
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

  // The current plan.
  Plan plan_;
  std::vector<std::vector<int32_t>> runs_;  // by operation of the forward
  std::vector<char> in_forward_;            // by operation of the forward
  std::vector<int64_t> saving_time_;        // by operation of the forward: to save what it makes
  std::vector<std::vector<Piece>> pieces_;  // by value, state, packing
  int64_t extra_ = 0;
  int64_t run_count_ = 0;

  // The effect of a change. Entries are valid if they have the stamp of the change.
  int32_t stamp_ = 0;
  std::vector<int32_t> stamp_choice_, stamp_operation_, stamp_queued_;
  std::vector<Choice> new_choice_;
  std::vector<Range> new_runs_;
  std::vector<char> new_in_forward_;
  std::vector<int64_t> new_saving_time_;
  std::vector<Range> new_pieces_;  // by value, state, packing
  std::vector<int32_t> arena_runs_;
  std::vector<Piece> arena_pieces_;
  std::vector<int32_t> queue_;  // heap of operations, last ones first
  std::vector<int32_t> changed_;
  std::vector<std::vector<Demand>> demands_;       // by output of the current operation
  std::vector<std::vector<Piece>> output_pieces_;  // same
  std::vector<std::pair<int32_t, Piece>> packed_;  // the same, for packed ones
  int64_t new_extra_ = 0;
  int64_t new_run_count_ = 0;
};

}  // namespace antegrad::budget
