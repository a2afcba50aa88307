#include "partition/budget/search.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace antegrad::budget {
namespace {

/// The number of values to drop for one additional value, at most.
constexpr int kMostTries = 12;

bool is_within(const Measure& measure) { return measure.excess <= 0; }

}  // namespace

Search::Search(Simulator& simulator, const Candidates& candidates, Archive& archive)
    : simulator_(simulator), candidates_(candidates), archive_(archive) {}

Measure Search::probe(std::span<const Change> changes) {
  ++measured_;
  const Measure measure = simulator_.probe(changes);
  archive_.offer(measure, simulator_.plan(), changes);
  return measure;
}

Measure Search::apply(std::span<const Change> changes) {
  ++measured_;
  const Measure measure = simulator_.apply(changes);
  archive_.offer(measure, simulator_.plan());
  return measure;
}

Measure Search::start(const Plan& plan, int64_t budget) {
  ++measured_;
  simulator_.set_budget(budget);
  const Measure measure = simulator_.set(plan);
  archive_.offer(measure, simulator_.plan());
  return measure;
}

/// The other ways to pack a kept value.
template <class Each>
void Search::for_each_packing(int32_t value, Each each) const {
  for (const Packing& packing : simulator_.problem().choosable_packings(value)) {
    if (choice(value) != packed_by(packing)) each(packed_by(packing));
  }
}

template <class Each>
void Search::for_each_alternative(int32_t value, Each each) const {
  const Choice now = choice(value);
  if (now != kSave) each(kSave);
  if (now != kRecompute) each(kRecompute);
  if (window_ != 0 && !is_window(now)) each(window_);
  for_each_packing(value, each);
}

/// The reduction of the excess per added time. A change with a score of 0 or below is useless.
double Search::score(const Measure& measure) const {
  const Measure now = simulator_.measure();
  const double less = now.excess - measure.excess;
  if (!(less > 0)) return 0;
  const auto more = static_cast<double>(measure.extra - now.extra);
  return more <= 0 ? 1e20 + less : less / (more + 1000);
}

/// Used if no single change helps: saves all values alive at one position of the forward.
bool Search::save_a_crossing() {
  double best = 0;
  std::vector<Change> chosen;
  std::vector<Change> changes;
  for (int32_t p = 0; p < candidates_.positions(); ++p) {
    changes.clear();
    for (const int32_t value : candidates_.crossing(p)) {
      if (may_change(value) && !is_kept(choice(value))) changes.push_back({value, kSave});
    }
    if (changes.empty()) continue;
    const double found = score(probe(changes));
    if (found <= best) continue;
    best = found;
    chosen = changes;
  }
  if (chosen.empty()) return false;
  apply(chosen);
  return true;
}

bool Search::descend(int64_t limit) {
  const int64_t end = measured_ + limit;
  int64_t stamp = 0;
  while (!is_within(simulator_.measure())) {
    if (!goes_on(end)) return false;
    std::vector<Move> moves;
    for (const int32_t value : candidates_.values()) {
      if (!may_change(value) || simulator_.problem().value(value).bytes == 0) continue;
      for_each_alternative(value, [&](Choice other) {
        const double found = score(probe({value, other}));
        if (found > 0) moves.push_back({found, value, other, stamp});
      });
    }
    if (moves.empty()) {
      if (!save_a_crossing()) return false;
      continue;
    }
    // Scores are updated lazily, when a move reaches the front.
    std::priority_queue<Move> queue(std::less<Move>(), std::move(moves));
    while (!queue.empty() && !is_within(simulator_.measure()) && goes_on(end)) {
      Move move = queue.top();
      queue.pop();
      if (choice(move.value) == move.choice) continue;
      if (move.stamp == stamp) {
        apply({move.value, move.choice});
        ++stamp;
        continue;
      }
      move.score = score(probe({move.value, move.choice}));
      move.stamp = stamp;
      if (move.score > 0) queue.push(move);
    }
  }
  return true;
}

void Search::use_room(int64_t limit) {
  const int64_t end = measured_ + limit;
  const auto gain = [&](const Measure& measure) {
    return is_within(measure) ? simulator_.measure().extra - measure.extra : int64_t{-1};
  };
  for (int round = 0; round < 3 && goes_on(end); ++round) {
    // Values saved without need make room.
    for (const int32_t value : candidates_.values()) {
      if (!may_change(value) || !is_kept(choice(value)) || !goes_on(end)) continue;
      if (simulator_.problem().value(value).bytes == 0) continue;
      if (gain(probe({value, kRecompute})) >= 0) apply({value, kRecompute});
    }
    std::priority_queue<Move> queue;
    for (const int32_t value : candidates_.values()) {
      if (!may_change(value)) continue;
      for_each_alternative(value, [&](Choice other) {
        const int64_t found = gain(probe({value, other}));
        if (found > 0) queue.push({static_cast<double>(found), value, other, 0});
      });
    }
    bool any = false;
    int64_t stamp = 0;
    while (!queue.empty() && goes_on(end)) {
      Move move = queue.top();
      queue.pop();
      if (choice(move.value) == move.choice) continue;
      if (move.stamp != stamp) {
        const int64_t found = gain(probe({move.value, move.choice}));
        if (found <= 0) continue;
        move.score = static_cast<double>(found);
        move.stamp = stamp;
        if (!queue.empty() && move < queue.top()) {
          queue.push(move);
          continue;
        }
      }
      apply({move.value, move.choice});
      ++stamp;
      any = true;
    }
    if (!any) return;
  }
}

void Search::exchange(int64_t limit) {
  const int64_t end = measured_ + limit;
  if (!is_within(simulator_.measure())) return;
  for (bool better = true; better && goes_on(end);) {
    better = false;
    const int64_t now = simulator_.measure().extra;
    struct Priced {
      int64_t extra;
      int32_t value;
      Choice to;
      bool operator<(const Priced& o) const {
        return extra != o.extra ? extra < o.extra : value < o.value;
      }
    };
    std::vector<Priced> removals;
    std::vector<Priced> additions;
    for (const int32_t value : candidates_.values()) {
      const auto add = [&](Choice to) {
        if (const Measure measure = probe({value, to}); measure.extra < now) {
          additions.push_back({measure.extra - now, value, to});
        }
      };
      const auto remove = [&](Choice to) {
        removals.push_back({probe({value, to}).extra - now, value, to});
      };
      if (choice(value) == kSave) {
        if (simulator_.problem().value(value).bytes == 0 || !simulator_.timetable().is_used(value))
          continue;
        remove(kRecompute);
        for_each_packing(value, remove);
      } else {
        add(kSave);
        for_each_packing(value, add);
        if (is_packing(choice(value))) remove(kRecompute);
      }
    }
    std::sort(removals.begin(), removals.end());
    std::sort(additions.begin(), additions.end());
    for (const Priced& addition : additions) {
      if (!goes_on(end)) return;
      if (choice(addition.value) == addition.to || choice(addition.value) == kSave) continue;
      std::vector<Change> changes = {{addition.value, addition.to}};
      Measure reached = probe(changes);
      const int64_t best = simulator_.measure().extra;
      if (reached.extra >= best) continue;
      if (is_within(reached)) {
        apply(changes);
        better = true;
        continue;
      }
      int tries = 0;
      for (const Priced& removal : removals) {
        const Choice there = choice(removal.value);
        if (!is_kept(there) || there == removal.to || removal.value == addition.value) continue;
        if (removal.extra >= best - reached.extra || tries++ >= kMostTries) break;
        changes.push_back({removal.value, removal.to});
        const Measure found = probe(changes);
        if (is_within(found) && found.extra < best) {
          apply(changes);
          better = true;
          break;
        }
        // A change that helps but is not enough stays, and the next one is added.
        if (found.extra < best && found.excess < reached.excess) {
          reached = found;
        } else {
          changes.pop_back();
        }
      }
    }
  }
}

void Search::go_back_to(const Plan& plan) {
  std::vector<Change> changes;
  for (const int32_t value : candidates_.values()) {
    if (choice(value) != plan[value]) changes.push_back({value, plan[value]});
  }
  simulator_.apply(changes);
}

void Search::search_windows(int64_t limit, uint64_t seed, const std::vector<Plan>& family) {
  const std::vector<int32_t>& choices = candidates_.values();
  if (!is_within(simulator_.measure()) || choices.empty()) return;
  const int64_t end = measured_ + limit;
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t below) { return static_cast<size_t>(random() % below); };
  const Problem& problem = simulator_.problem();
  const auto forward = static_cast<double>(problem.forward_count);
  // Swaps kept and recomputed, packed or not.
  const auto other_side = [&](int32_t value) {
    if (is_kept(choice(value))) return kRecompute;
    const auto packings = problem.choosable_packings(value);
    const size_t way = packings.empty() ? 0 : pick(packings.size() + 1);
    return way == 0 ? kSave : packed_by(packings[way - 1]);
  };
  Plan best = simulator_.plan();
  Measure best_measure = simulator_.measure();
  std::vector<Change> changes;
  while (goes_on(end)) {
    changes.clear();
    allowed_.assign(problem.values.size(), false);
    if (pick(3) == 0) {
      // One or two values change sides; all others may follow.
      allowed_.assign(problem.values.size(), true);
      for (size_t k = 1 + pick(2); k > 0; --k) {
        const int32_t value = choices[pick(choices.size())];
        changes.push_back({value, other_side(value)});
        allowed_[value] = false;
      }
    } else {
      const double spread = static_cast<double>(pick(1000)) / 1000;
      const auto length =
          static_cast<int32_t>(std::max(3.0, forward * (0.03 + 0.25 * spread * spread)));
      const auto from = static_cast<int32_t>(pick(problem.forward_count));
      const int32_t to = std::min(problem.forward_count - 1, from + length);
      const int32_t first = std::max(0, to - length);
      const size_t mode = pick(3);
      const Plan* other = family.empty() ? nullptr : &family[pick(family.size())];
      for (const int32_t value : choices) {
        const int32_t position = problem.value(value).maker;
        if (position < first || position > to) continue;
        allowed_[value] = true;
        Choice to_be = choice(value);
        if (mode == 0) {
          to_be = problem.is_read_in_backward(value) ? kSave : kRecompute;
        } else if (mode == 1 && other) {
          to_be = (*other)[value];
        } else if (pick(4) == 0) {
          to_be = window_ != 0 && pick(2) == 0 ? window_ : other_side(value);
        }
        if (to_be != choice(value)) changes.push_back({value, to_be});
      }
      for (size_t k = choices.size() / 20 + 1; k > 0; --k)
        allowed_[choices[pick(choices.size())]] = true;
    }
    apply(changes);
    if (descend(end - measured_)) use_room(end - measured_);
    const Measure found = simulator_.measure();
    if (is_within(found) && found.extra <= best_measure.extra) {
      best = simulator_.plan();
      best_measure = found;
    } else {
      go_back_to(best);
    }
  }
  allowed_.clear();
  go_back_to(best);
}

}  // namespace antegrad::budget
