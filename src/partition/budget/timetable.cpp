#include "partition/budget/timetable.h"

#include <algorithm>
#include <utility>

namespace antegrad::budget {
namespace {

/// A plan that needs more than this many times the operations is not evaluated further.
constexpr int64_t kMostRuns = 4;

}  // namespace

Timetable::Timetable(const Problem& problem)
    : problem_(problem),
      forward_count_(problem.forward_count),
      slots_(problem.backward_count() + 1),
      width_(static_cast<Key>(problem.packings.size()) + 1),
      state_of_(problem.forward_count, -1),
      runs_(problem.forward_count),
      in_forward_(problem.forward_count, 0),
      saving_time_(problem.forward_count, 0),
      stamp_choice_(problem.values.size(), 0),
      stamp_operation_(problem.forward_count, 0),
      stamp_queued_(problem.forward_count, 0),
      new_choice_(problem.values.size(), kRecompute),
      new_runs_(problem.forward_count),
      new_in_forward_(problem.forward_count, 0),
      new_saving_time_(problem.forward_count, 0) {
  auto held = static_cast<int32_t>(problem.values.size());
  for (int32_t o = 0; o < forward_count_; ++o) {
    if (problem.operation(o).state_bytes != 0) state_of_[o] = held++;
  }
  first_packed_ = held;
  held += static_cast<int32_t>(problem.packings.size());
  pieces_.resize(held);
  new_pieces_.resize(held);
  Plan plan(problem.values.size(), kRecompute);
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].always_saved) plan[v] = kSave;
  }
  set(plan);
}

// --- a plan with changes on top ------------------------------------------------------------------

Choice Timetable::choice(int32_t value) const {
  return stamp_choice_[value] == stamp_ ? new_choice_[value] : plan_[value];
}

bool Timetable::is_saved(int32_t value) const {
  return budget::is_saved(problem_.value(value), choice(value));
}

/// The packing in which a saved value waits for the backward.
int32_t Timetable::packing(int32_t value) const {
  if (problem_.packings.empty()) return -1;
  return packing_of(problem_, value, problem_.value(value).always_saved ? kSave : choice(value));
}

void Timetable::collect_demands(int32_t value, std::vector<Demand>& demands) const {
  demands.clear();
  for (const int32_t reader : problem_.readers[value]) {
    if (reader >= forward_count_) {
      const int32_t slot = reader - forward_count_;
      demands.push_back({slot, key_of_slot(slot)});
    } else {
      for (const int32_t slot : new_runs(reader)) demands.push_back({slot, key_of(slot, reader)});
    }
  }
  if (problem_.value(value).gradient) demands.push_back({slots_ - 1, kNever});
}

bool Timetable::is_used(int32_t value) const {
  const auto readers = problem_.readers[value];
  return problem_.is_needed_in_backward(value) ||
         std::ranges::any_of(readers, [&](int32_t reader) { return !runs(reader).empty(); });
}

std::vector<int32_t> Timetable::uses(int32_t value) const {
  std::vector<Demand> demands;
  collect_demands(value, demands);
  std::vector<int32_t> slots;
  for (const Demand& demand : demands) slots.push_back(demand.slot);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

void Timetable::push(int32_t operation) {
  if (stamp_queued_[operation] == stamp_) return;
  stamp_queued_[operation] = stamp_;
  queue_.push_back(operation);
  std::push_heap(queue_.begin(), queue_.end());
}

Timetable::Key Timetable::last_forward_use(int32_t value) const {
  Key last = key_of(problem_.value(value).maker);
  for (const int32_t reader : problem_.readers[value]) {
    if (reader < forward_count_ && new_in_forward(reader)) last = std::max(last, key_of(reader));
  }
  return last;
}

/// Adds the live pieces of a saved value, whose demands are known.
void Timetable::save(int32_t value, size_t k, std::vector<Piece>& pieces) {
  const Key made = key_of(problem_.value(value).maker);
  const auto [first, last] = std::ranges::minmax_element(
      demands_[k], [](const Demand& a, const Demand& b) { return a.key < b.key; });
  const int32_t way = packing(value);
  if (way < 0) {
    pieces.push_back({made, last->key});
    return;
  }
  const Piece kept{key_of_pack(last_forward_use(value), way), key_of_unpack(first->key, way)};
  pieces.push_back({made, kept.begin});
  pieces.push_back({kept.end, last->key});
  packed_.emplace_back(way, kept);
  new_saving_time_[problem_.value(value).maker] += problem_.packing(way).time;
}

/// Schedules the runs of an operation and the lives of its outputs. All readers of these must have
/// been scheduled.
void Timetable::schedule(int32_t operation) {
  const auto makes = problem_.makes[operation];
  if (demands_.size() < makes.size()) {
    demands_.resize(makes.size());
    output_pieces_.resize(makes.size());
  }
  bool forward = problem_.operation(operation).required;
  for (size_t k = 0; k < makes.size(); ++k) {
    collect_demands(makes[k], demands_[k]);
    output_pieces_[k].clear();
    if (is_saved(makes[k]) && !demands_[k].empty()) forward = true;
    for (const int32_t reader : problem_.readers[makes[k]]) {
      if (reader < forward_count_ && new_in_forward(reader)) forward = true;
    }
  }
  const auto first_run = static_cast<int32_t>(arena_runs_.size());
  packed_.clear();
  new_saving_time_[operation] = 0;
  for (size_t k = 0; forward && k < makes.size(); ++k) {
    const Value& value = problem_.value(makes[k]);
    Key end = key_of(operation);
    if (value.result) {
      end = kNever;
    } else if (is_saved(makes[k]) && !demands_[k].empty()) {
      save(makes[k], k, output_pieces_[k]);
      new_saving_time_[operation] += value.saving_time;
      continue;
    } else {
      end = last_forward_use(makes[k]);
      if (value.written_back) end = key_of_end();
    }
    output_pieces_[k].push_back({key_of(operation), end});
  }
  schedule_backward(operation, makes);

  new_runs_[operation] = {first_run, static_cast<int32_t>(arena_runs_.size()) - first_run};
  new_in_forward_[operation] = forward;
  stamp_operation_[operation] = stamp_;
  changed_.push_back(operation);
  const auto store = [&](int32_t value, std::span<const Piece> pieces) {
    new_pieces_[value] = {static_cast<int32_t>(arena_pieces_.size()),
                          static_cast<int32_t>(pieces.size())};
    arena_pieces_.insert(arena_pieces_.end(), pieces.begin(), pieces.end());
  };
  for (size_t k = 0; k < makes.size(); ++k) store(makes[k], output_pieces_[k]);
  if (const int32_t state = state_of(operation); state >= 0) {
    const auto again = new_runs(operation);
    const Piece held{key_of(operation),
                     again.empty() ? key_of(operation) : key_of(again.back(), operation)};
    store(state, {&held, again.empty() ? size_t{0} : size_t{1}});
  }
  for_each_packing(operation, [&](int32_t packing) {
    const auto it =
        std::ranges::find_if(packed_, [&](const auto& kept) { return kept.first == packing; });
    store(held_of(packing), {it == packed_.end() ? nullptr : &it->second,
                             it == packed_.end() ? size_t{0} : size_t{1}});
  });
}

/// Appends the slots in which the operation is recomputed to arena_runs_, and the resulting lives
/// of its outputs to output_pieces_.
void Timetable::schedule_backward(int32_t operation, std::span<const int32_t> makes) {
  struct Output {
    size_t next = 0;     // index of a demand
    int32_t last = -1;   // last slot that produced or used it; -1: not in memory
    bool again = false;  // is recomputed if not in memory
    int32_t window = std::numeric_limits<int32_t>::max();
  };
  constexpr size_t kFew = 8;
  Output few[kFew];
  std::vector<Output> many;
  Output* outputs = few;
  if (makes.size() > kFew) {
    many.resize(makes.size());
    outputs = many.data();
  }
  for (size_t k = 0; k < makes.size(); ++k) {
    outputs[k] = {};
    outputs[k].again = !is_saved(makes[k]) && !problem_.value(makes[k]).result;
    if (problem_.value(makes[k]).fused) {
      outputs[k].window = 0;
    } else if (const Choice chosen = choice(makes[k]); is_window(chosen)) {
      outputs[k].window = chosen;
    }
    if (!outputs[k].again) {
      demands_[k].clear();
    } else if (demands_[k].size() > 1) {
      std::ranges::sort(demands_[k],
                        [](const Demand& a, const Demand& b) { return a.key < b.key; });
    }
  }
  const auto is_there = [&](size_t k, int32_t slot) {
    return outputs[k].last >= 0 && slot - outputs[k].last <= outputs[k].window;
  };
  while (true) {
    size_t first = makes.size();
    for (size_t k = 0; k < makes.size(); ++k) {
      if (outputs[k].next == demands_[k].size()) continue;
      if (first == makes.size() ||
          demands_[k][outputs[k].next].slot < demands_[first][outputs[first].next].slot) {
        first = k;
      }
    }
    if (first == makes.size()) return;
    Output& output = outputs[first];
    const Demand demand = demands_[first][output.next];
    if (!is_there(first, demand.slot)) {
      const Key run = key_of(demand.slot, operation);
      arena_runs_.push_back(demand.slot);
      for (size_t k = 0; k < makes.size(); ++k) {
        Output& made = outputs[k];
        output_pieces_[k].push_back({run, run});
        if (!made.again || made.next == demands_[k].size()) continue;
        const int32_t next_slot = demands_[k][made.next].slot;
        if (is_there(k, next_slot)) {
          // The live copy stays and the new one dies at once. Its uses continue at the end of the
          // list.
          std::swap(output_pieces_[k].back(), output_pieces_[k][output_pieces_[k].size() - 2]);
        } else if (next_slot - demand.slot <= made.window) {
          made.last = demand.slot;
        }
      }
    }
    output_pieces_[first].back().end = std::max(output_pieces_[first].back().end, demand.key);
    output.last = demand.slot;
    ++output.next;
  }
}

// --- plans and changes ---------------------------------------------------------------------------

void Timetable::begin() {
  ++stamp_;
  arena_runs_.clear();
  arena_pieces_.clear();
  changed_.clear();
  queue_.clear();
  new_extra_ = extra_;
  new_run_count_ = run_count_;
}

/// How often an operation is computed in these slots: a fused one once for each loop.
int64_t Timetable::count_of(int32_t operation, std::span<const int32_t> slots) const {
  if (!problem_.is_fused(operation)) return static_cast<int64_t>(slots.size());
  int64_t count = 0;
  int32_t last = -1;
  for (const int32_t slot : slots) {
    // The last slot has what gradients need.
    const int32_t loop = slot + 1 < slots_ ? problem_.loops[slot] : slots_;
    count += loop != last;
    last = loop;
  }
  return count;
}

bool Timetable::change(std::span<const Change> changes) {
  begin();
  for (const Change& change : changes) {
    stamp_choice_[change.value] = stamp_;
    new_choice_[change.value] = change.choice;
    push(problem_.value(change.value).maker);
  }
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const int32_t operation = queue_.back();
    queue_.pop_back();
    schedule(operation);
    const auto again = new_runs(operation);
    const auto before = runs(operation);
    const bool same_runs = std::equal(again.begin(), again.end(), before.begin(), before.end());
    const bool same_forward = new_in_forward(operation) == in_forward(operation);
    new_extra_ += new_saving_time_[operation] - saving_time_[operation];
    if (same_runs && same_forward && new_extra_ <= most_extra_) continue;
    const int64_t more = count_of(operation, again) - count_of(operation, before);
    if (!problem_.is_fused(operation)) new_run_count_ += more;
    new_extra_ += problem_.operation(operation).time *
                  (more + int64_t{new_in_forward(operation)} - int64_t{in_forward(operation)});
    const bool too_much =
        new_extra_ > most_extra_ ||
        new_run_count_ > kMostRuns * static_cast<int64_t>(problem_.operations.size());
    if (too_much) return false;
    for (const int32_t value : problem_.reads[operation]) push(problem_.value(value).maker);
  }
  return true;
}

void Timetable::take_over() {
  for (const int32_t operation : changed_) {
    const auto again = new_runs(operation);
    runs_[operation].assign(again.begin(), again.end());
    in_forward_[operation] = new_in_forward_[operation];
    saving_time_[operation] = new_saving_time_[operation];
    for_each_held(operation, [&](int32_t value) {
      const auto pieces = new_pieces(value);
      pieces_[value].assign(pieces.begin(), pieces.end());
    });
  }
  extra_ = new_extra_;
  run_count_ = new_run_count_;
}

void Timetable::keep(std::span<const Change> changes) {
  take_over();
  for (const Change& change : changes) plan_[change.value] = change.choice;
}

void Timetable::set(const Plan& plan) {
  plan_ = plan;
  run_count_ = 0;
  extra_ = -problem_.time;
  for (int32_t o = forward_count_; o < static_cast<int32_t>(problem_.operations.size()); ++o) {
    extra_ += problem_.operation(o).time;
  }
  begin();
  for (int32_t o = forward_count_; o-- > 0;) {
    schedule(o);
    const int64_t again = count_of(o, new_runs(o));
    if (!problem_.is_fused(o)) new_run_count_ += again;
    new_extra_ += problem_.operation(o).time * (again + int64_t{new_in_forward(o)});
    new_extra_ += new_saving_time_[o];
  }
  take_over();
}

}  // namespace antegrad::budget
