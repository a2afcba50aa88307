#include "partition/budget/bounds.h"

#include <algorithm>
#include <cmath>

namespace antegrad::budget {

int64_t peak_floor(const Problem& problem) {
  int64_t results = 0;
  for (const Value& value : problem.values) {
    if (value.result) results += value.bytes;
  }
  int64_t gradients = 0;
  int64_t made_results = 0;
  int64_t floor = 0;
  for (int32_t o = 0; o < static_cast<int32_t>(problem.operations.size()); ++o) {
    const bool backward = problem.operation(o).backward;
    int64_t live = backward ? results + gradients + problem.tangent_bytes : made_results;
    for (const int32_t v : problem.reads[o]) {
      const Value& value = problem.value(v);
      const bool counted =
          value.result || (backward && value.gradient && problem.operation(value.maker).backward);
      if (!counted) live += problem.passing_bytes(v);
    }
    for (const int32_t v : problem.makes[o]) live += problem.passing_bytes(v);
    live += problem.operation(o).scratch;
    if (backward || problem.operation(o).required) floor = std::max(floor, live);
    for (const int32_t v : problem.makes[o]) {
      const Value& value = problem.value(v);
      if (value.result) made_results += value.bytes;
      if (value.gradient && backward) gradients += value.bytes;
    }
  }
  return floor;
}

Bounds::Bounds(const Problem& problem)
    : problem_(problem),
      forward_count_(problem.forward_count),
      slots_(problem.backward_count() + 1),
      direct_(problem.values.size()),
      fixed_live_(key_of(slots_, 0), 0),
      fixed_steps_(key_of(slots_, 0), 0),
      runs_once_(problem.forward_count, 0),
      prices_(problem.values.size(), 0),
      needs_(problem.values.size()),
      early_(problem.forward_count),
      late_(problem.forward_count),
      last_(problem.forward_count),
      surely_forward_(problem.forward_count),
      gap_of_(problem.values.size()) {
  live_.resize(fixed_live_.size());
  std::vector<char> needed(problem.values.size(), 0);
  // Between the passes: the forward ends, the backward starts.
  fixed_steps_[forward_count_] = fixed_steps_[forward_count_ + 1] = 1;
  live_.assign(live_.size(), 0);
  hold(forward_count_ + 1, last_key(), problem.tangent_bytes);
  for (int32_t v = 0; v < static_cast<int32_t>(problem.values.size()); ++v) {
    const Value& value = problem.value(v);
    Need& need = direct_[v];
    Key last = -1;
    for (const int32_t reader : problem.readers[v]) {
      if (reader < forward_count_) continue;
      need.first_sure = std::min(need.first_sure, reader - forward_count_);
      last = std::max(last, key_of(reader - forward_count_, forward_count_));
    }
    if (value.maker >= forward_count_) {
      const Key made = key_of(value.maker - forward_count_, forward_count_);
      const bool stays = value.gradient || value.result;
      hold(made, stays ? last_key() : std::max(made, last), problem.passing_bytes(v));
      continue;
    }
    if (value.gradient) {
      need.first_sure = std::min(need.first_sure, slots_ - 1);
      last = last_key();
    }
    need.first_possible = need.first_sure;
    need.last_sure = last;
    needed[v] = need.first_sure < kNever ? 1 : 0;
  }
  for (Slot slot = 0; slot + 1 < slots_; ++slot) fixed_steps_[key_of(slot, forward_count_)] = 1;
  fixed_live_.swap(live_);
  for (int32_t o = forward_count_; o-- > 0;) {
    const auto makes = problem.makes[o];
    bool runs = problem.operation(o).required;
    int64_t bytes = 0;
    for (const int32_t v : makes) {
      runs = runs || needed[v];
      bytes += problem.value(v).bytes;
    }
    runs_once_[o] = runs ? 1 : 0;
    for (const int32_t v : problem.reads[o]) needed[v] |= runs ? 1 : 0;
    for (const int32_t v : makes) {
      if (!problem.is_choice(v) || problem.value(v).bytes == 0) continue;
      prices_[v] = static_cast<double>(problem.operation(o).time) / static_cast<double>(bytes);
      by_price_.push_back(v);
    }
  }
  std::ranges::stable_sort(by_price_,
                           [&](int32_t a, int32_t b) { return prices_[a] < prices_[b]; });
}

/// Requires that all readers of the value were visited.
void Bounds::find_needs(int32_t value) {
  Need need = direct_[value];
  for (const int32_t reader : problem_.readers[value]) {
    if (reader >= forward_count_) break;
    need.first_possible = std::min(need.first_possible, early_[reader]);
    if (late_[reader] == kNever) continue;
    need.first_sure = std::min(need.first_sure, late_[reader]);
    need.last_sure = std::max(need.last_sure, key_of(last_[reader], reader));
  }
  needs_[value] = need;
}

void Bounds::find_runs(const Plan& decided) {
  steps_ = fixed_steps_;
  for (int32_t o = forward_count_; o-- > 0;) {
    Slot early = kNever;
    Slot late = kNever;
    Slot last = -1;
    bool forward = problem_.operation(o).required;
    for (const int32_t v : problem_.makes[o]) {
      find_needs(v);
      const Need& need = needs_[v];
      const bool saved = !may_run_again(v, decided[v]);
      if (saved && need.first_sure < kNever) forward = true;
      for (const int32_t reader : problem_.readers[v]) {
        if (reader < forward_count_ && surely_forward_[reader]) forward = true;
      }
      if (saved) continue;
      early = std::min(early, need.first_possible);
      if (decided[v] == kOpen) continue;
      late = std::min(late, need.first_sure);
      if (problem_.value(v).fused && need.last_sure >= 0) {
        last = std::max(last, need.last_sure / (forward_count_ + 1) - 2);
      }
    }
    early_[o] = early;
    late_[o] = late;
    last_[o] = last < 0 ? early : last;
    surely_forward_[o] = forward ? 1 : 0;
    if (forward) steps_[o] = 1;
    if (late < kNever && early == late) steps_[key_of(late, o)] = 1;
  }
}

void Bounds::hold_values(const Plan& decided) {
  live_ = fixed_live_;
  for (int32_t o = 0; o < forward_count_; ++o) {
    const bool forward = surely_forward_[o];
    const bool again = late_[o] < kNever;
    const Key run = again && early_[o] == late_[o] ? key_of(late_[o], o) : -1;
    if (again) hold(o, key_of(early_[o], o), problem_.operation(o).state_bytes);
    for (const int32_t v : problem_.makes[o]) {
      const Value& value = problem_.value(v);
      const int64_t bytes = problem_.passing_bytes(v);
      const Need& need = needs_[v];
      const Choice choice = decided[v];
      gap_of_[v] = {v, 0, -1};
      Key end = o - 1;  // end of its life in the forward
      if (forward) {
        end = value.written_back ? forward_count_ : o;
        for (const int32_t reader : problem_.readers[v]) {
          if (reader < forward_count_ && surely_forward_[reader]) end = std::max(end, reader);
        }
      }
      if (value.result) {
        hold(o, last_key(), bytes);
      } else if (!may_run_again(v, choice)) {
        const bool kept = need.last_sure > forward_count_;
        hold(o, std::max(end, need.last_sure), kept ? value.bytes : bytes);
      } else {
        hold(o, end, bytes);
        if (need.first_sure < kNever) {
          const Slot made = choice == kOpen ? need.first_sure : late_[o];
          const Key begin = key_of(made, o);
          hold(begin, need.last_sure, bytes);
          if (choice == kOpen) {
            gap_of_[v] = value.fused
                             ? Gap{v, o, need.last_sure}
                             : Gap{v, std::max(end + 1, o), std::min(begin - 1, need.last_sure)};
          }
          if (run >= begin && run <= need.last_sure) continue;
        }
      }
      // Other outputs of an operation live while it runs.
      if (run >= 0) hold(run, run, bytes);
    }
  }
  for (size_t i = 1; i < live_.size(); ++i) live_[i] += live_[i - 1];
}

int64_t Bounds::extra_of_runs() const {
  int64_t extra = 0;
  for (int32_t o = 0; o < forward_count_; ++o) {
    const int64_t runs = (late_[o] < kNever ? 1 : 0) + (surely_forward_[o] ? 1 : 0);
    if (runs > 1) extra += problem_.operation(o).time;
  }
  return extra;
}

/// If the open values do not all fit at the same time, at least the cheapest ones per byte must be
/// recomputed. Returns the time of this, at the step where it is largest.
int64_t Bounds::extra_to_fit(int64_t budget) {
  filled_.assign(live_.size() + 1, 0);
  gaps_.clear();
  for (const int32_t v : by_price_) {
    const Gap gap = gap_of_[v];
    if (gap.end < gap.begin) continue;
    filled_[gap.begin] += problem_.value(v).bytes;
    filled_[gap.end + 1] -= problem_.value(v).bytes;
    gaps_.push_back(gap);
  }
  double most = 0;
  int64_t filled = 0;
  for (Key key = 0; key <= last_key(); ++key) {
    filled += filled_[key];
    int64_t over = live_[key] + filled - budget;
    if (!steps_[key] || over <= 0) continue;
    // Operations that are recomputed anyway, or that are not in the forward, cost nothing.
    const auto each = [&](bool costs, auto take) {
      for (const Gap& gap : gaps_) {
        if (key < gap.begin || key > gap.end) continue;
        const int32_t maker = problem_.value(gap.value).maker;
        if (costs != (surely_forward_[maker] && late_[maker] == kNever)) continue;
        const int64_t bytes = std::min(over, problem_.value(gap.value).bytes);
        take(gap.value, bytes);
        over -= bytes;
        if (over == 0) return;
      }
    };
    double time = 0;
    each(false, [](int32_t, int64_t) {});
    if (over > 0) {
      each(true, [&](int32_t value, int64_t bytes) {
        time += prices_[value] * static_cast<double>(bytes);
      });
    }
    most = std::max(most, time);
  }
  // Sums of products: rounded down by more than their rounding error.
  return std::max<int64_t>(0, static_cast<int64_t>(most * (1 - 1e-9)) - 1);
}

Bound Bounds::of(const Plan& decided, int64_t budget) {
  find_runs(decided);
  hold_values(decided);
  Bound bound;
  for (size_t key = 0; key < live_.size(); ++key) {
    if (steps_[key]) bound.peak = std::max(bound.peak, live_[key]);
  }
  bound.extra = extra_of_runs();
  if (bound.peak <= budget && budget < std::numeric_limits<int64_t>::max()) {
    bound.extra += extra_to_fit(budget);
  }
  return bound;
}

}  // namespace antegrad::budget
