#include "partition/budget/simulator.h"

#include <algorithm>

namespace antegrad::budget {
namespace {

constexpr size_t kBlock = 32;
/// A plan that runs more than this times all operations again is not looked at further.
constexpr int64_t kMostRuns = 4;

}  // namespace

Simulator::Simulator(const Problem& problem)
    : problem_(problem),
      forward_count_(problem.forward_count),
      slots_(problem.backward_count() + 1),
      budget_(static_cast<double>(std::numeric_limits<int64_t>::max())),
      plan_(problem.values.size(), kRecompute),
      state_value_(at(problem.forward_count), -1),
      runs_(at(problem.forward_count)),
      in_forward_(at(problem.forward_count), 0),
      forward_step_(at(problem.forward_count) + 1, 0),
      stamp_choice_(problem.values.size(), 0),
      stamp_operation_(at(problem.forward_count), 0),
      stamp_queued_(at(problem.forward_count), 0),
      new_choice_(problem.values.size(), kRecompute),
      new_runs_(at(problem.forward_count)),
      new_in_forward_(at(problem.forward_count), 0) {
  for (const Value& value : problem.values) bytes_.push_back(static_cast<double>(value.bytes));
  for (int32_t o = 0; o < forward_count_; ++o) {
    if (problem.operation(o).state_bytes == 0) continue;
    state_value_[at(o)] = static_cast<int32_t>(bytes_.size());
    bytes_.push_back(static_cast<double>(problem.operation(o).state_bytes));
  }
  pieces_.resize(bytes_.size());
  new_pieces_.resize(bytes_.size());
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].always_saved) plan_[v] = kSave;
  }
  add_static_lives();
  set(plan_);
}

/// What the backward makes lives from when it is made to its last use, whatever the plan.
void Simulator::add_static_lives() {
  slot_made_.assign(at(slots_), 0);
  slot_freed_.assign(at(slots_), 0);
  for (int32_t o = forward_count_; o < static_cast<int32_t>(problem_.operations.size()); ++o) {
    const int32_t slot = o - forward_count_;
    for (const int32_t v : problem_.makes[o]) {
      const auto bytes = static_cast<double>(problem_.value(v).bytes);
      slot_made_[at(slot)] += bytes;
      if (problem_.value(v).gradient || problem_.value(v).result) continue;
      int32_t last = slot;
      for (const int32_t reader : problem_.readers[v])
        last = std::max(last, reader - forward_count_);
      slot_freed_[at(last)] += bytes;
    }
  }
  for (int32_t v = 0; v < static_cast<int32_t>(bytes_.size()); ++v) {
    const bool of_forward =
        at(v) >= problem_.values.size() || problem_.value(v).maker < forward_count_;
    if (of_forward && bytes_[at(v)] != 0) moving_.push_back(v);
  }
}

// --- a plan with changes on top -------------------------------------------------------------------

Choice Simulator::choice(int32_t value) const {
  return stamp_choice_[at(value)] == stamp_ ? new_choice_[at(value)] : plan_[at(value)];
}

bool Simulator::is_saved(int32_t value) const {
  return problem_.value(value).always_saved || choice(value) == kSave;
}

std::span<const int32_t> Simulator::runs(int32_t operation) const {
  if (stamp_operation_[at(operation)] != stamp_) return runs_[at(operation)];
  const Range range = new_runs_[at(operation)];
  return {arena_runs_.data() + range.begin, at(range.count)};
}

bool Simulator::in_forward(int32_t operation) const {
  return stamp_operation_[at(operation)] == stamp_ ? new_in_forward_[at(operation)]
                                                   : in_forward_[at(operation)];
}

std::span<const int32_t> Simulator::runs_again(int32_t operation) const {
  return runs_[at(operation)];
}

void Simulator::collect_demands(int32_t value, std::vector<Demand>& demands) const {
  demands.clear();
  for (const int32_t reader : problem_.readers[value]) {
    if (reader >= forward_count_) {
      const int32_t slot = reader - forward_count_;
      demands.push_back({slot, key_of_slot(slot)});
    } else {
      for (const int32_t slot : runs(reader)) demands.push_back({slot, key_of(slot, reader)});
    }
  }
  if (problem_.value(value).gradient) demands.push_back({slots_ - 1, kNever});
}

bool Simulator::is_used(int32_t value) const {
  const auto readers = problem_.readers[value];
  return problem_.is_needed_in_backward(value) ||
         std::any_of(readers.begin(), readers.end(),
                     [&](int32_t reader) { return !runs_[at(reader)].empty(); });
}

std::vector<int32_t> Simulator::uses(int32_t value) const {
  std::vector<Demand> demands;
  collect_demands(value, demands);
  std::vector<int32_t> slots;
  for (const Demand& demand : demands) slots.push_back(demand.slot);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

void Simulator::push(int32_t operation) {
  if (stamp_queued_[at(operation)] == stamp_) return;
  stamp_queued_[at(operation)] = stamp_;
  queue_.push_back(operation);
  std::push_heap(queue_.begin(), queue_.end());
}

/// When the operation runs, and when its outputs are alive. Whatever reads these has been scheduled.
void Simulator::schedule(int32_t operation) {
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
      if (reader < forward_count_ && in_forward(reader)) forward = true;
    }
  }
  const auto first_run = static_cast<int32_t>(arena_runs_.size());
  for (size_t k = 0; forward && k < makes.size(); ++k) {
    const Value& value = problem_.value(makes[k]);
    Key end = operation;
    if (value.result) {
      end = kNever;
    } else if (is_saved(makes[k]) && !demands_[k].empty()) {
      for (const Demand& demand : demands_[k]) end = std::max(end, demand.key);
    } else {
      for (const int32_t reader : problem_.readers[makes[k]]) {
        if (reader < forward_count_ && in_forward(reader)) end = std::max(end, Key{reader});
      }
      if (value.written_back) end = key_of_end();
    }
    output_pieces_[k].push_back({operation, end});
  }
  schedule_backward(operation, makes);

  new_runs_[at(operation)] = {first_run, static_cast<int32_t>(arena_runs_.size()) - first_run};
  new_in_forward_[at(operation)] = forward;
  stamp_operation_[at(operation)] = stamp_;
  changed_.push_back(operation);
  const auto store = [&](int32_t value, std::span<const Piece> pieces) {
    new_pieces_[at(value)] = {static_cast<int32_t>(arena_pieces_.size()),
                              static_cast<int32_t>(pieces.size())};
    arena_pieces_.insert(arena_pieces_.end(), pieces.begin(), pieces.end());
  };
  for (size_t k = 0; k < makes.size(); ++k) store(makes[k], output_pieces_[k]);
  if (const int32_t state = state_value_[at(operation)]; state >= 0) {
    const auto again = runs(operation);
    const Piece held{operation, again.empty() ? operation : key_of(again.back(), operation)};
    store(state, {&held, again.empty() ? size_t{0} : size_t{1}});
  }
}

/// Appends to arena_runs_ the slots in which the operation runs again, and to output_pieces_ from when to when
/// its outputs live then.
void Simulator::schedule_backward(int32_t operation, std::span<const int32_t> makes) {
  struct Output {
    size_t next = 0;     // demand
    int32_t last = -1;   // slot in which it was last made or used; -1: it is not there
    bool again = false;  // is computed again where it is not there
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
    if (const Choice chosen = choice(makes[k]); is_window(chosen)) outputs[k].window = chosen;
    if (!outputs[k].again) {
      demands_[k].clear();
    } else if (demands_[k].size() > 1) {
      std::sort(demands_[k].begin(), demands_[k].end(),
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
          // The one that is there stays; this one dies at once. Uses go on at the end of the list.
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

/// Schedules anew what the changes touch. False when that is hopeless.
bool Simulator::propagate(std::span<const Change> changes) {
  ++stamp_;
  arena_runs_.clear();
  arena_pieces_.clear();
  changed_.clear();
  queue_.clear();
  new_extra_ = measure_.extra;
  new_run_count_ = run_count_;
  for (const Change& change : changes) {
    stamp_choice_[at(change.value)] = stamp_;
    new_choice_[at(change.value)] = change.choice;
    push(problem_.value(change.value).maker);
  }
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const int32_t operation = queue_.back();
    queue_.pop_back();
    schedule(operation);
    const auto again = runs(operation);
    const auto before = std::span<const int32_t>(runs_[at(operation)]);
    const bool same_runs = std::equal(again.begin(), again.end(), before.begin(), before.end());
    const bool same_forward = in_forward(operation) == (in_forward_[at(operation)] != 0);
    if (same_runs && same_forward) continue;
    const int64_t more = static_cast<int64_t>(again.size()) - static_cast<int64_t>(before.size());
    new_run_count_ += more;
    new_extra_ += problem_.operation(operation).time * (more + int64_t{in_forward(operation)} -
                                                        int64_t{in_forward_[at(operation)] != 0});
    const bool too_much =
        new_extra_ > most_extra_ ||
        new_run_count_ > kMostRuns * static_cast<int64_t>(problem_.operations.size());
    if (too_much) {
      work_ += static_cast<int64_t>(changed_.size());
      return false;
    }
    for (const int32_t value : problem_.reads[operation]) push(problem_.value(value).maker);
  }
  return true;
}

// --- live bytes -----------------------------------------------------------------------------------

void Simulator::sum_range(size_t begin, size_t end, double delta, double& peak,
                          double& excess) const {
  const double room = budget_ - delta;
  double most = 0;
  double over = 0;
  const auto one_by_one = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      most = std::max(most, live_[i] + delta);
      over += std::max(0.0, live_[i] - room);
    }
  };
  while (begin < end) {
    const size_t block = begin / kBlock;
    const size_t block_end = std::min((block + 1) * kBlock, live_.size());
    if (begin != block * kBlock || end < block_end) {
      const size_t to = std::min(end, block_end);
      one_by_one(begin, to);
      begin = to;
      continue;
    }
    most = std::max(most, block_max_[block] + delta);
    if (block_max_[block] > room) {
      if (block_min_[block] >= room) {
        over += block_sum_[block] - room * static_cast<double>(block_end - begin);
      } else {
        one_by_one(begin, block_end);
      }
    }
    begin = block_end;
  }
  peak = std::max(peak, most);
  excess += over;
}

/// Where a key is among the steps: the first step that is not before it.
int32_t Simulator::step_of(Key key) const {
  const Key row = forward_count_ + 1;
  if (key < row) return forward_step_[static_cast<size_t>(key)];
  const Key slot = key / row - 2;
  if (slot < 0) return slot_begin_[0] - 1;
  int32_t step = slot_begin_[static_cast<size_t>(slot)];
  const int32_t end = slot_begin_[static_cast<size_t>(slot) + 1];
  if (key - (slot + 2) * row == forward_count_) return slot == slots_ - 1 ? end : end - 1;
  if (end - step > 16) {
    return static_cast<int32_t>(std::lower_bound(keys_.begin() + step, keys_.begin() + end, key) -
                                keys_.begin());
  }
  while (step < end && keys_[at(step)] < key) ++step;
  return step;
}

/// The measure with the changes that were propagated.
Measure Simulator::evaluate() {
  events_.clear();
  const auto add = [&](Piece piece, double bytes) {
    events_.push_back({2 * piece.begin, bytes, 0});
    if (piece.end != kNever) events_.push_back({2 * piece.end + 1, -bytes, 0});
  };
  const auto compare = [&](int32_t value) {
    const double bytes = bytes_[at(value)];
    if (bytes == 0) return;
    const Range range = new_pieces_[at(value)];
    const std::span<const Piece> after{arena_pieces_.data() + range.begin, at(range.count)};
    const std::span<const Piece> before = pieces_[at(value)];
    size_t a = 0;
    size_t b = 0;
    while (a < after.size() || b < before.size()) {
      if (b == before.size() || (a < after.size() && after[a].begin < before[b].begin)) {
        add(after[a++], bytes);
      } else if (a == after.size() || before[b].begin < after[a].begin) {
        add(before[b++], -bytes);
      } else {
        if (after[a].end != before[b].end) {
          if (before[b].end != kNever) events_.push_back({2 * before[b].end + 1, bytes, 0});
          if (after[a].end != kNever) events_.push_back({2 * after[a].end + 1, -bytes, 0});
        }
        ++a;
        ++b;
      }
    }
  };
  for (const int32_t operation : changed_) {
    for (const int32_t value : problem_.makes[operation]) compare(value);
    if (state_value_[at(operation)] >= 0) compare(state_value_[at(operation)]);
    const auto scratch = static_cast<double>(problem_.operation(operation).scratch);
    if (in_forward(operation) != bool(in_forward_[at(operation)])) {
      events_.push_back(
          {2 * Key{operation}, scratch, static_cast<int8_t>(in_forward(operation) ? 2 : 1)});
    }
    const auto after = runs(operation);
    const std::vector<int32_t>& before = runs_[at(operation)];
    size_t a = 0;
    size_t b = 0;
    while (a < after.size() || b < before.size()) {
      if (b == before.size() || (a < after.size() && after[a] < before[b])) {
        events_.push_back({2 * key_of(after[a++], operation), scratch, 2});
      } else if (a == after.size() || before[b] < after[a]) {
        events_.push_back({2 * key_of(before[b++], operation), 0, 1});
      } else {
        ++a;
        ++b;
      }
    }
  }
  work_ += static_cast<int64_t>(changed_.size() + events_.size()) + 8;
  std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.pos != b.pos ? a.pos < b.pos : a.kind < b.kind;
  });
  double peak = 0;
  double excess = 0;
  double delta = 0;
  size_t next = 0;  // step
  for (size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const bool moves = i == 0 || events_[i - 1].pos != event.pos;
    if (moves) {
      // Steps at the very moment come after what happens to bytes there.
      const auto to = at(step_of((event.pos + 1) / 2));
      if (to > next) sum_range(next, to, delta, peak, excess);
      next = std::max(next, to);
    }
    if (event.kind == 0) {
      delta += event.bytes;
    } else if (event.kind == 1) {
      ++next;
    } else {
      const double live = (next == 0 ? 0 : after_[next - 1]) + delta + event.bytes;
      peak = std::max(peak, live);
      excess += std::max(0.0, live - budget_);
    }
  }
  sum_range(next, live_.size(), delta, peak, excess);
  return {static_cast<int64_t>(peak), new_extra_, excess};
}

/// Makes the changes that were propagated part of the plan.
void Simulator::take_over() {
  for (const int32_t operation : changed_) {
    const auto again = runs(operation);
    runs_[at(operation)].assign(again.begin(), again.end());
    in_forward_[at(operation)] = new_in_forward_[at(operation)];
    const auto take = [&](int32_t value) {
      const Range range = new_pieces_[at(value)];
      const auto* first = arena_pieces_.data() + range.begin;
      pieces_[at(value)].assign(first, first + range.count);
    };
    for (const int32_t value : problem_.makes[operation]) take(value);
    if (state_value_[at(operation)] >= 0) take(state_value_[at(operation)]);
  }
  measure_.extra = new_extra_;
  run_count_ = new_run_count_;
}

/// Works out the steps and what is alive while they run.
void Simulator::rebuild() {
  keys_.clear();
  for (int32_t o = 0; o < forward_count_; ++o) {
    forward_step_[at(o)] = static_cast<int32_t>(keys_.size());
    if (in_forward_[at(o)]) keys_.push_back(o);
  }
  forward_step_[at(forward_count_)] = static_cast<int32_t>(keys_.size());
  keys_.push_back(key_of_end());
  keys_.push_back(key_of_start());
  const auto head = static_cast<int32_t>(keys_.size());
  slot_begin_.assign(at(slots_) + 1, 0);
  for (const auto& again : runs_) {
    for (const int32_t slot : again) ++slot_begin_[at(slot) + 1];
  }
  for (int32_t slot = 0; slot < slots_ - 1; ++slot) ++slot_begin_[at(slot) + 1];
  slot_begin_[0] = head;
  for (size_t i = 1; i < slot_begin_.size(); ++i) slot_begin_[i] += slot_begin_[i - 1];
  keys_.resize(at(slot_begin_.back()));
  std::vector<int32_t>& next = step_operation_;
  next.assign(slot_begin_.begin(), slot_begin_.end() - 1);
  for (int32_t o = 0; o < forward_count_; ++o) {
    for (const int32_t slot : runs_[at(o)]) keys_[at(next[at(slot)]++)] = key_of(slot, o);
  }
  for (int32_t slot = 0; slot < slots_ - 1; ++slot) keys_[at(next[at(slot)])] = key_of_slot(slot);

  const size_t count = keys_.size();
  scratch_.assign(count, 0);
  for (int32_t o = 0; o < forward_count_; ++o) {
    const auto scratch = static_cast<double>(problem_.operation(o).scratch);
    if (scratch == 0) continue;
    if (in_forward_[at(o)]) scratch_[at(forward_step_[at(o)])] = scratch;
    for (const int32_t slot : runs_[at(o)]) scratch_[at(step_of(key_of(slot, o)))] = scratch;
  }
  for (int32_t slot = 0; slot < slots_ - 1; ++slot) {
    scratch_[at(slot_begin_[at(slot) + 1]) - 1] =
        static_cast<double>(problem_.operation(forward_count_ + slot).scratch);
  }
  made_.assign(count, 0);
  freed_.assign(count, 0);
  made_[at(head) - 1] = static_cast<double>(problem_.tangent_bytes);
  for (size_t slot = 0; slot + 1 < slot_begin_.size(); ++slot) {
    const size_t last = at(slot_begin_[slot + 1]) - 1;
    made_[last] += slot_made_[slot];
    freed_[last] += slot_freed_[slot];
  }
  for (const int32_t value : moving_) {
    const double bytes = bytes_[at(value)];
    for (const Piece& piece : pieces_[at(value)]) {
      made_[at(step_of(piece.begin))] += bytes;
      if (piece.end != kNever) freed_[at(step_of(piece.end))] += bytes;
    }
  }
  work_ += static_cast<int64_t>(count) / 8;
  live_.resize(count);
  after_.resize(count);
  const size_t blocks = (count + kBlock - 1) / kBlock;
  block_max_.assign(blocks, 0);
  block_min_.assign(blocks, std::numeric_limits<double>::max());
  block_sum_.assign(blocks, 0);
  double live = 0;
  for (size_t i = 0; i < count; ++i) {
    live += made_[i];
    const double running = live + scratch_[i];
    live_[i] = running;
    const size_t block = i / kBlock;
    block_max_[block] = std::max(block_max_[block], running);
    block_min_[block] = std::min(block_min_[block], running);
    block_sum_[block] += running;
    live -= freed_[i];
    after_[i] = live;
  }
  double peak = 0;
  measure_.excess = 0;
  sum_range(0, count, 0, peak, measure_.excess);
  measure_.peak = static_cast<int64_t>(peak);
}

void Simulator::set_budget(int64_t bytes) {
  budget_ = static_cast<double>(bytes);
  double peak = 0;
  measure_.excess = 0;
  sum_range(0, live_.size(), 0, peak, measure_.excess);
}

Measure Simulator::set(const Plan& plan) {
  plan_ = plan;
  for (auto& again : runs_) again.clear();
  std::fill(in_forward_.begin(), in_forward_.end(), char{0});
  run_count_ = 0;
  measure_ = {};
  int64_t base = 0;
  for (int32_t o = forward_count_; o < static_cast<int32_t>(problem_.operations.size()); ++o) {
    base += problem_.operation(o).time;
  }
  measure_.extra = base - problem_.time;
  for (int32_t o = 0; o < forward_count_; ++o) {
    for (const int32_t value : problem_.makes[o]) pieces_[at(value)].clear();
    if (state_value_[at(o)] >= 0) pieces_[at(state_value_[at(o)])].clear();
  }
  ++stamp_;
  arena_runs_.clear();
  arena_pieces_.clear();
  changed_.clear();
  new_extra_ = measure_.extra;
  new_run_count_ = 0;
  for (int32_t o = forward_count_; o-- > 0;) {
    schedule(o);
    const auto again = static_cast<int64_t>(runs(o).size());
    new_run_count_ += again;
    new_extra_ += problem_.operation(o).time * (again + int64_t{in_forward(o)});
  }
  take_over();
  rebuild();
  return measure_;
}

Measure Simulator::probe(std::span<const Change> changes) {
  return propagate(changes) ? evaluate() : kHopeless;
}

Measure Simulator::apply(std::span<const Change> changes) {
  if (!propagate(changes)) return kHopeless;
  take_over();
  for (const Change& change : changes) plan_[at(change.value)] = change.choice;
  rebuild();
  return measure_;
}

std::vector<Step> Simulator::steps() const {
  std::vector<Step> steps;
  const Key row = forward_count_ + 1;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto live = static_cast<int64_t>(live_[i]);
    const Key key = keys_[i];
    if (key < forward_count_) {
      steps.push_back({static_cast<int32_t>(key), -1, live});
    } else if (key == key_of_end() || key == key_of_start()) {
      steps.push_back({-1, -1, live});
    } else {
      const auto slot = static_cast<int32_t>(key / row - 2);
      const auto column = static_cast<int32_t>(key % row);
      steps.push_back({column == forward_count_ ? forward_count_ + slot : column, slot, live});
    }
  }
  return steps;
}

}  // namespace antegrad::budget
