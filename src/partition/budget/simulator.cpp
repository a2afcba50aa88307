#include "partition/budget/simulator.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace antegrad::budget {

Simulator::Simulator(const Problem& problem)
    : problem_(problem),
      forward_count_(problem.forward_count),
      slots_(problem.backward_count() + 1),
      timetable_(problem),
      bytes_(timetable_.held_count(), 0),
      forward_step_(problem.forward_count + 1, 0) {
  for (size_t v = 0; v < problem.values.size(); ++v) {
    bytes_[v] = static_cast<double>(problem.values[v].bytes);
  }
  for (int32_t o = 0; o < forward_count_; ++o) {
    const int32_t state = timetable_.state_of(o);
    if (state >= 0) bytes_[state] = static_cast<double>(problem.operation(o).state_bytes);
  }
  for (size_t p = 0; p < problem.packings.size(); ++p) {
    bytes_[timetable_.held_of(static_cast<int32_t>(p))] =
        static_cast<double>(problem.packings[p].bytes);
  }
  add_static_lives();
  set_budget(std::numeric_limits<int64_t>::max());
  rebuild();
}

/// In any plan, values of the backward live from their producer to their last use.
void Simulator::add_static_lives() {
  slot_made_.assign(slots_, 0);
  slot_freed_.assign(slots_, 0);
  for (int32_t o = forward_count_; o < static_cast<int32_t>(problem_.operations.size()); ++o) {
    const int32_t slot = o - forward_count_;
    for (const int32_t v : problem_.makes[o]) {
      const auto bytes = static_cast<double>(problem_.passing_bytes(v));
      slot_made_[slot] += bytes;
      if (problem_.value(v).gradient || problem_.value(v).result) continue;
      int32_t last = slot;
      for (const int32_t reader : problem_.readers[v])
        last = std::max(last, reader - forward_count_);
      slot_freed_[last] += bytes;
    }
  }
  for (int32_t v = 0; v < static_cast<int32_t>(bytes_.size()); ++v) {
    const bool of_forward = std::cmp_greater_equal(v, problem_.values.size()) ||
                            problem_.value(v).maker < forward_count_;
    if (of_forward && bytes_[v] != 0) moving_.push_back(v);
  }
}

/// Bytes of a copy of a value: less for a fused one that is not kept for the backward.
double Simulator::bytes_in(int32_t value, Piece piece) const {
  const bool is_value = std::cmp_less(value, problem_.values.size());
  if (!is_value || !problem_.value(value).fused) return bytes_[value];
  const Key end = timetable_.key_of_end();
  return piece.begin < end && piece.end > end ? bytes_[value] : 0;
}

/// The position of a key: the first step that is not before it.
int32_t Simulator::step_of(Key key) const {
  const Key row = forward_count_ + 1;
  const Key cell = timetable_.cell_of(key);
  if (cell < row) {
    int32_t step = forward_step_[cell];
    while (step > 0 && keys_[step - 1] >= key) --step;
    return step;
  }
  const Key slot = cell / row - 2;
  if (slot < 0) return slot_begin_[0] - 1;
  int32_t step = slot_begin_[slot];
  const int32_t end = slot_begin_[slot + 1];
  const bool of_slot = cell - (slot + 2) * row == forward_count_;
  if (of_slot && !timetable_.is_of_packing(key)) return slot == slots_ - 1 ? end : end - 1;
  if (end - step > 16) {
    return static_cast<int32_t>(std::lower_bound(keys_.begin() + step, keys_.begin() + end, key) -
                                keys_.begin());
  }
  while (step < end && keys_[step] < key) ++step;
  return step;
}

// --- changes -------------------------------------------------------------------------------------

void Simulator::add_end(Key end, double bytes) {
  if (end != Timetable::kNever) events_.push_back({2 * end + 1, -bytes, EventKind::bytes});
}

void Simulator::add_piece(Piece piece, double bytes) {
  events_.push_back({2 * piece.begin, bytes, EventKind::bytes});
  add_end(piece.end, bytes);
}

void Simulator::compare_pieces(int32_t value) {
  if (bytes_[value] == 0) return;
  const auto before = timetable_.pieces(value);
  const auto after = timetable_.new_pieces(value);
  size_t a = 0;
  size_t b = 0;
  while (a < after.size() || b < before.size()) {
    if (b == before.size() || (a < after.size() && after[a].begin < before[b].begin)) {
      add_piece(after[a], bytes_in(value, after[a]));
      ++a;
    } else if (a == after.size() || before[b].begin < after[a].begin) {
      add_piece(before[b], -bytes_in(value, before[b]));
      ++b;
    } else {
      const double was = bytes_in(value, before[b]);
      const double is = bytes_in(value, after[a]);
      if (was != is) {
        add_piece(before[b], -was);
        add_piece(after[a], is);
      } else if (after[a].end != before[b].end) {
        add_end(before[b].end, -was);
        add_end(after[a].end, is);
      }
      ++a;
      ++b;
    }
  }
}

template <class Comes, class Goes>
void Simulator::compare_packings(int32_t operation, Comes comes, Goes goes) {
  timetable_.for_each_packing(operation, [&](int32_t packing) {
    const int32_t held = timetable_.held_of(packing);
    const auto before = timetable_.pieces(held);
    const auto after = timetable_.new_pieces(held);
    const auto compare = [&](Key Piece::*key, int64_t scratch) {
      const bool same =
          !before.empty() && !after.empty() && before.front().*key == after.front().*key;
      if (!same && !before.empty()) goes(before.front().*key);
      if (!same && !after.empty()) comes(after.front().*key, static_cast<double>(scratch));
    };
    compare(&Piece::begin, problem_.packing(packing).pack_scratch);
    compare(&Piece::end, problem_.packing(packing).unpack_scratch);
  });
}

void Simulator::compare_runs(int32_t operation) {
  const auto step_comes = [&](Key key, double bytes) {
    events_.push_back({2 * key, bytes, EventKind::step_comes});
  };
  const auto comes = [&](Key key) { step_comes(key, scratch(operation)); };
  const auto goes = [&](Key key) { events_.push_back({2 * key, 0, EventKind::step_goes}); };
  compare_packings(operation, step_comes, goes);
  const bool forward = timetable_.new_in_forward(operation);
  const Key there = timetable_.key_of(operation);
  if (forward != timetable_.in_forward(operation)) forward ? comes(there) : goes(there);
  const auto before = timetable_.runs(operation);
  const auto after = timetable_.new_runs(operation);
  size_t a = 0;
  size_t b = 0;
  while (a < after.size() || b < before.size()) {
    if (b == before.size() || (a < after.size() && after[a] < before[b])) {
      comes(timetable_.key_of(after[a++], operation));
    } else if (a == after.size() || before[b] < after[a]) {
      goes(timetable_.key_of(before[b++], operation));
    } else {
      ++a;
      ++b;
    }
  }
}

/// The measure with the prepared changes applied.
Measure Simulator::evaluate() {
  events_.clear();
  for (const int32_t operation : timetable_.changed()) {
    timetable_.for_each_held(operation, [&](int32_t value) { compare_pieces(value); });
    compare_runs(operation);
  }
  work_ += static_cast<int64_t>(timetable_.changed().size() + events_.size()) + 8;
  std::ranges::sort(events_, [](const Event& a, const Event& b) {
    return a.pos != b.pos ? a.pos < b.pos : a.kind < b.kind;
  });
  LiveProfile::Load load;
  double more = 0;
  size_t next = 0;  // step
  for (size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const bool moves = i == 0 || events_[i - 1].pos != event.pos;
    if (moves) {
      // Steps at the same key come after the changes of bytes there.
      const size_t to = step_of((event.pos + 1) / 2);
      if (to > next) profile_.count(next, to, more, load);
      next = std::max(next, to);
    }
    switch (event.kind) {
      case EventKind::bytes: more += event.bytes; break;
      case EventKind::step_goes: ++next; break;
      case EventKind::step_comes: profile_.count_new(next, more + event.bytes, load); break;
    }
  }
  profile_.count(next, profile_.steps(), more, load);
  return {static_cast<int64_t>(load.peak), timetable_.new_extra(), load.excess};
}

// --- the plan ------------------------------------------------------------------------------------

/// Lists keys of the forward, and the steps that pack.
void Simulator::list_forward() {
  packs_.clear();
  unpacks_.clear();
  for (size_t p = 0; p < problem_.packings.size(); ++p) {
    for (const Piece& piece : timetable_.pieces(timetable_.held_of(static_cast<int32_t>(p)))) {
      packs_.push_back(piece.begin);
      unpacks_.push_back(piece.end);
    }
  }
  std::sort(packs_.begin(), packs_.end());
  keys_.clear();
  auto pack = packs_.begin();
  for (int32_t o = 0; o <= forward_count_; ++o) {
    while (pack != packs_.end() && *pack < timetable_.key_of(o)) keys_.push_back(*pack++);
    forward_step_[o] = static_cast<int32_t>(keys_.size());
    if (o < forward_count_ && timetable_.in_forward(o)) keys_.push_back(timetable_.key_of(o));
  }
}

void Simulator::list_steps() {
  list_forward();
  keys_.push_back(timetable_.key_of_end());
  keys_.push_back(timetable_.key_of_start());
  slot_begin_.assign(slots_ + 1, 0);
  const auto slot_of = [&](Key key) {
    return static_cast<size_t>(timetable_.cell_of(key) / (forward_count_ + 1) - 2);
  };
  for (const Key key : unpacks_) ++slot_begin_[slot_of(key) + 1];
  for (int32_t o = 0; o < forward_count_; ++o) {
    for (const int32_t slot : timetable_.runs(o)) ++slot_begin_[slot + 1];
  }
  for (int32_t slot = 0; slot < slots_ - 1; ++slot) ++slot_begin_[slot + 1];
  slot_begin_[0] = static_cast<int32_t>(keys_.size());
  for (size_t i = 1; i < slot_begin_.size(); ++i) slot_begin_[i] += slot_begin_[i - 1];
  keys_.resize(slot_begin_.back());
  next_step_.assign(slot_begin_.begin(), slot_begin_.end() - 1);
  for (int32_t o = 0; o < forward_count_; ++o) {
    for (const int32_t slot : timetable_.runs(o)) {
      keys_[next_step_[slot]++] = timetable_.key_of(slot, o);
    }
  }
  for (int32_t slot = 0; slot < slots_ - 1; ++slot) {
    keys_[next_step_[slot]++] = timetable_.key_of_slot(slot);
  }
  for (const Key key : unpacks_) keys_[next_step_[slot_of(key)]++] = key;
  for (const Key key : unpacks_) {
    const size_t slot = slot_of(key);
    std::sort(keys_.begin() + slot_begin_[slot], keys_.begin() + slot_begin_[slot + 1]);
  }
}

/// Recomputes all steps and the bytes live at each.
void Simulator::rebuild() {
  list_steps();
  const size_t count = keys_.size();
  for (std::vector<double>* by_step : {&made_, &scratch_, &freed_}) by_step->assign(count, 0);
  for (int32_t o = 0; o < forward_count_; ++o) {
    if (scratch(o) == 0) continue;
    if (timetable_.in_forward(o)) scratch_[forward_step_[o]] = scratch(o);
    for (const int32_t slot : timetable_.runs(o)) {
      scratch_[step_of(timetable_.key_of(slot, o))] = scratch(o);
    }
  }
  for (size_t p = 0; p < problem_.packings.size(); ++p) {
    const Packing& packing = problem_.packings[p];
    for (const Piece& piece : timetable_.pieces(timetable_.held_of(static_cast<int32_t>(p)))) {
      scratch_[step_of(piece.begin)] = static_cast<double>(packing.pack_scratch);
      scratch_[step_of(piece.end)] = static_cast<double>(packing.unpack_scratch);
    }
  }
  made_[slot_begin_[0] - 1] = static_cast<double>(problem_.tangent_bytes);
  for (int32_t slot = 0; slot < slots_; ++slot) {
    const size_t last = slot_begin_[slot + 1] - 1;
    if (slot < slots_ - 1) scratch_[last] = scratch(forward_count_ + slot);
    made_[last] += slot_made_[slot];
    freed_[last] += slot_freed_[slot];
  }
  for (const int32_t value : moving_) {
    for (const Piece& piece : timetable_.pieces(value)) {
      const double bytes = bytes_in(value, piece);
      made_[step_of(piece.begin)] += bytes;
      if (piece.end != Timetable::kNever) freed_[step_of(piece.end)] += bytes;
    }
  }
  work_ += static_cast<int64_t>(count) / 8;
  profile_.build(made_, scratch_, freed_);
  const LiveProfile::Load load = whole();
  measure_ = {static_cast<int64_t>(load.peak), timetable_.extra(), load.excess};
}

LiveProfile::Load Simulator::whole() const {
  LiveProfile::Load load;
  profile_.count(0, profile_.steps(), 0, load);
  return load;
}

void Simulator::set_budget(int64_t bytes) {
  profile_.set_budget(static_cast<double>(bytes));
  measure_.excess = whole().excess;
}

Measure Simulator::set(const Plan& plan) {
  timetable_.set(plan);
  rebuild();
  return measure_;
}

/// Returns false if the plan is hopeless.
bool Simulator::work_out(std::span<const Change> changes) {
  if (timetable_.change(changes)) return true;
  work_ += static_cast<int64_t>(timetable_.changed().size());
  return false;
}

Measure Simulator::probe(std::span<const Change> changes) {
  return work_out(changes) ? evaluate() : kHopeless;
}

Measure Simulator::apply(std::span<const Change> changes) {
  if (!work_out(changes)) return kHopeless;
  timetable_.keep(changes);
  rebuild();
  return measure_;
}

std::vector<Step> Simulator::steps() const {
  std::vector<Step> steps;
  const Key row = forward_count_ + 1;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const auto live = static_cast<int64_t>(profile_.live(i));
    const Key cell = timetable_.cell_of(keys_[i]);
    const auto slot = static_cast<int32_t>(cell / row) - 2;
    const auto column = static_cast<int32_t>(cell % row);
    const bool runs = slot >= 0 || cell < forward_count_;
    int32_t operation = -1;
    if (runs && !timetable_.is_of_packing(keys_[i])) {
      operation = slot >= 0 && column == forward_count_ ? forward_count_ + slot : column;
    }
    steps.push_back({operation, std::max(slot, -1), live});
  }
  return steps;
}

}  // namespace antegrad::budget
