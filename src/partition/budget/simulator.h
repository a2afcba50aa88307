#pragma once

/// \file
/// What a plan costs: when each operation runs again, what is alive when, and how long it takes.
///
/// The backward runs its operations in order. Before each of them runs what it needs and what is not there, in
/// the order of the graph, with all that these need in turn. What ran again stays until its last use; or, where
/// the plan says so, is forgotten when nothing needs it for a while, and then runs once more. This is the
/// schedule that split_at() emits (docs/budget.md).
///
/// The simulator holds one plan and tells what a change of a few of its values would do (probe()), in time that
/// grows with what the change moves, not with the graph. All figures are exact: bytes and picoseconds in
/// integers. Not thread-safe.

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "partition/budget/plan.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

struct Step {
  int32_t operation;  ///< -1: the end of the forward, or the start of the backward
  int32_t slot;       ///< of the backward; -1: the forward
  int64_t live;       ///< bytes while it runs
};

class Simulator {
 public:
  /// The problem must outlive it. Starts with nothing saved and no budget.
  explicit Simulator(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Plan& plan() const { return plan_; }
  /// What counts as excess from now on.
  void set_budget(int64_t bytes);

  /// Changes that take more than this many picoseconds in all are hopeless from now on.
  void set_most_extra(int64_t picoseconds) { most_extra_ = picoseconds; }

  Measure set(const Plan& plan);
  Measure measure() const { return measure_; }
  /// What the plan would measure with these changes.
  Measure probe(std::span<const Change> changes);
  Measure probe(Change change) { return probe(std::span(&change, 1)); }
  /// Changes the plan.
  Measure apply(std::span<const Change> changes);
  Measure apply(Change change) { return apply(std::span(&change, 1)); }

  /// Grows with the work of all calls, the same on every machine.
  int64_t work() const { return work_; }

  /// In the order in which they run. Slot i of the backward is its operation i with what runs again before it;
  /// the last one is what gradients need at the end.
  std::vector<Step> steps() const;
  /// Where an operation of the forward runs again, by slot.
  std::span<const int32_t> runs_again(int32_t operation) const;
  /// Whether it runs in the forward.
  bool runs_in_forward(int32_t operation) const { return in_forward_[at(operation)]; }
  /// Whether anything in the backward needs the value, as the plan has it.
  bool is_used(int32_t value) const;
  /// Slots of the backward that use a value, as the plan has it; ascending.
  std::vector<int32_t> uses(int32_t value) const;

 private:
  using Key = int64_t;  ///< orders all that may ever run; see key_of()
  static constexpr Key kNever = std::numeric_limits<Key>::max() / 4;
  struct Piece {
    Key begin;
    Key end;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  struct Demand {
    int32_t slot;
    Key key;
  };
  struct Range {
    int32_t begin = 0;
    int32_t count = 0;
  };
  /// What happens to live bytes at a moment; `pos` is twice the key, one more for after it.
  struct Event {
    Key pos;
    double bytes;
    int8_t kind;  ///< 0: bytes, 1: a step goes, 2: a step comes that takes these while it runs
  };

  static size_t at(int32_t index) { return static_cast<size_t>(index); }
  Key key_of(int32_t slot, int32_t operation) const {
    return (static_cast<Key>(slot) + 2) * (forward_count_ + 1) + operation;
  }
  Key key_of_end() const { return forward_count_; }
  Key key_of_start() const { return forward_count_ + 1; }
  Key key_of_slot(int32_t slot) const { return key_of(slot, forward_count_); }

  bool is_saved(int32_t value) const;
  Choice choice(int32_t value) const;
  std::span<const int32_t> runs(int32_t operation) const;
  bool in_forward(int32_t operation) const;

  void add_static_lives();
  void push(int32_t operation);
  void schedule(int32_t operation);
  void schedule_backward(int32_t operation, std::span<const int32_t> makes);
  void collect_demands(int32_t value, std::vector<Demand>& demands) const;
  bool propagate(std::span<const Change> changes);
  void take_over();
  void rebuild();
  int32_t step_of(Key key) const;
  Measure evaluate();
  void sum_range(size_t begin, size_t end, double delta, double& peak, double& excess) const;
  std::span<const Piece> pieces_before(int32_t value) const { return pieces_[at(value)]; }

  const Problem& problem_;
  int32_t forward_count_;
  int32_t slots_;  ///< of the backward, one more for the end
  double budget_ = 0;
  Plan plan_;
  Measure measure_;
  std::vector<double> bytes_;                   // by value, then by state of an operation
  std::vector<int32_t> state_value_;            // by operation of the forward, -1: none
  std::vector<int32_t> moving_;                 // values of the forward with bytes, states
  std::vector<double> slot_made_, slot_freed_;  // by slot: bytes of values that the backward makes
  int64_t run_count_ = 0;
  int64_t work_ = 0;
  int64_t most_extra_ = std::numeric_limits<int64_t>::max();

  // The plan as it is.
  std::vector<std::vector<int32_t>> runs_;  // by operation of the forward
  std::vector<char> in_forward_;            // by operation of the forward
  std::vector<std::vector<Piece>> pieces_;  // by value
  std::vector<int32_t> forward_step_;       // by operation of the forward: steps before it
  std::vector<Key> keys_;                   // by step
  std::vector<double> live_;                // by step: while it runs
  std::vector<double> after_;               // by step: after what it reads last is freed
  std::vector<int32_t> slot_begin_;         // by slot: its first step
  std::vector<double> block_max_, block_min_, block_sum_;
  std::vector<double> scratch_;       // by step: of its kernel
  std::vector<double> made_, freed_;  // by step, while live bytes are worked out
  std::vector<int32_t> step_operation_;

  // What a change would make of it: entries are valid where the stamp is that of the change.
  int32_t stamp_ = 0;
  std::vector<int32_t> stamp_choice_, stamp_operation_, stamp_queued_;
  std::vector<Choice> new_choice_;
  std::vector<Range> new_runs_;
  std::vector<char> new_in_forward_;
  std::vector<Range> new_pieces_;  // by value
  std::vector<int32_t> arena_runs_;
  std::vector<Piece> arena_pieces_;
  std::vector<int32_t> queue_;    // heap of operations, last ones first
  std::vector<int32_t> changed_;  // operations that were scheduled anew
  std::vector<Event> events_;
  std::vector<std::vector<Demand>> demands_;       // by output of the operation at hand
  std::vector<std::vector<Piece>> output_pieces_;  // same
  int64_t new_extra_ = 0;
  int64_t new_run_count_ = 0;
};

}  // namespace antegrad::budget
