#include "partition/budget/segments.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace antegrad::budget {
namespace {

constexpr size_t kMostStates = 60;
constexpr double kLongestSegment = 0.6;  // as a share of the forward's time

/// One way to run the forward between two cut points.
struct Segment {
  int64_t peak;   ///< inside the segment, above the bytes saved before
  int64_t saved;  ///< bytes
  int64_t time;
  size_t plan;  ///< index in the family
};

struct State {
  int64_t saved;
  int64_t time;
  size_t from;   ///< previous cut point
  size_t state;  ///< state there
  size_t plan;
};

class Composer {
 public:
  Composer(Simulator& simulator, const Candidates& candidates, const std::vector<Plan>& family,
           const SegmentLimits& limits)
      : simulator_(simulator),
        problem_(simulator.problem()),
        candidates_(candidates),
        limits_(limits),
        until_(problem_.forward_times()) {
    choose_plans(family);
    choose_cut_points();
    simulate_segments();
  }

  std::optional<Plan> compose(int64_t budget) const {
    std::vector<std::vector<State>> states(points_.size());
    states[0] = {{0, 0, 0, 0, 0}};
    for (size_t i = 0; i + 1 < points_.size(); ++i) {
      prune(states[i]);
      for (size_t j = i + 1; j < points_.size(); ++j) {
        for (const Segment& segment : segments_[i][j]) {
          for (size_t k = 0; k < states[i].size(); ++k) {
            const State& state = states[i][k];
            if (state.saved + segment.peak > budget) continue;
            states[j].push_back(
                {state.saved + segment.saved, state.time + segment.time, i, k, segment.plan});
          }
        }
      }
    }
    if (states.back().empty()) return std::nullopt;
    State state = *std::ranges::min_element(
        states.back(), [](const State& a, const State& b) { return a.time < b.time; });
    Plan plan(problem_.values.size(), kRecompute);
    for (size_t j = points_.size() - 1; j > 0;) {
      set_inside(plan, state.from, j, family_[state.plan]);
      const size_t from = state.from;
      if (from > 0) state = states[from][state.state];
      j = from;
    }
    return plan;
  }

 private:
  void choose_plans(const std::vector<Plan>& family) {
    eager_.assign(problem_.values.size(), kRecompute);
    for (const int32_t value : candidates_.values()) {
      if (problem_.is_needed_in_backward(value)) eager_[value] = kSave;
    }
    family_ = {Plan(problem_.values.size(), kRecompute), eager_};
    const size_t wanted = std::max(1, limits_.plans - 2);
    const size_t stride = std::max<size_t>(1, family.size() / wanted);
    for (size_t i = 0; i < family.size(); i += stride) family_.push_back(family[i]);
  }

  /// Divides the forward into parts of equal time and chooses the position with the fewest live
  /// bytes in each. -1 stands for the start.
  void choose_cut_points() {
    points_ = {-1};
    const int64_t whole = until_.back();
    int32_t p = 0;
    for (int32_t i = 0; i < limits_.cut_points; ++i) {
      int32_t best = -1;
      int64_t fewest = 0;
      for (; p < problem_.forward_count - 1 && until_[p] <= whole / limits_.cut_points * (i + 1);
           ++p) {
        int64_t bytes = 0;
        for (const int32_t value : candidates_.crossing(p)) {
          bytes += kept_bytes(problem_, value, kSave);
        }
        if (best >= 0 && bytes >= fewest) continue;
        best = p;
        fewest = bytes;
      }
      if (best >= 0) points_.push_back(best);
    }
    points_.push_back(problem_.forward_count - 1);
  }

  bool is_inside(int32_t value, size_t from, size_t to) const {
    const int32_t position = problem_.value(value).maker;
    return position > points_[from] && position <= points_[to];
  }

  /// Copies the decisions of `plan` for values produced between two cut points. Values that cross
  /// the later one are saved.
  void set_inside(Plan& into, size_t from, size_t to, const Plan& plan) const {
    for (const int32_t value : candidates_.values()) {
      if (is_inside(value, from, to)) into[value] = plan[value];
    }
    save_crossing(into, to);
  }

  void save_crossing(Plan& plan, size_t point) const {
    if (point == 0 || point + 1 == points_.size()) return;
    for (const int32_t value : candidates_.crossing(points_[point])) plan[value] = kSave;
  }

  void simulate_segments() {
    segments_.resize(points_.size());
    const int64_t whole = until_.back();
    for (size_t i = 0; i + 1 < points_.size(); ++i) {
      segments_[i].resize(points_.size());
      const int64_t start = i == 0 ? 0 : until_[points_[i]];
      for (size_t j = i + 1; j < points_.size(); ++j) {
        const auto time = static_cast<double>(until_[points_[j]] - start);
        const bool is_long = time > kLongestSegment * static_cast<double>(whole);
        if (is_long && j > i + 1 && points_.size() > 6) continue;
        simulate_segment(i, j);
      }
    }
  }

  void simulate_segment(size_t from, size_t to) {
    int32_t first = problem_.backward_count();
    int32_t last = -1;
    for (const int32_t value : candidates_.values()) {
      if (!is_inside(value, from, to)) continue;
      for (const int32_t reader : problem_.readers[value]) {
        if (reader < problem_.forward_count) continue;
        first = std::min(first, reader - problem_.forward_count);
        last = std::max(last, reader - problem_.forward_count);
      }
    }
    if (last < 0) return;
    std::set<Plan> seen;
    for (size_t f = 0; f < family_.size(); ++f) {
      Plan plan = eager_;
      set_inside(plan, from, to, family_[f]);
      save_crossing(plan, from);
      if (!seen.insert(plan).second) continue;
      const Measure measure = simulator_.set(plan);
      if (measure.peak == kHopeless.peak) continue;
      int64_t peak = 0;
      for (const Step& step : simulator_.steps()) {
        if (step.slot >= first && step.slot <= last) peak = std::max(peak, step.live);
      }
      int64_t before = 0;
      int64_t saved = 0;
      for (const int32_t value : candidates_.values()) {
        if (!is_kept(plan[value])) continue;
        const int64_t bytes = kept_bytes(problem_, value, plan[value]);
        if (is_inside(value, from, to)) saved += bytes;
        if (problem_.value(value).maker <= points_[from]) before += bytes;
      }
      segments_[from][to].push_back({peak - before, saved, measure.extra, f});
    }
  }

  /// Keeps only states that no other state beats in both respects, up to a limit.
  static void prune(std::vector<State>& states) {
    std::ranges::sort(states, [](const State& a, const State& b) {
      return std::pair(a.saved, a.time) < std::pair(b.saved, b.time);
    });
    std::vector<State> kept;
    for (const State& state : states) {
      if (kept.empty() || state.time < kept.back().time) kept.push_back(state);
    }
    if (kept.size() > kMostStates) {
      const size_t stride = kept.size() / kMostStates + 1;
      std::vector<State> thin;
      for (size_t i = 0; i < kept.size(); i += stride) thin.push_back(kept[i]);
      thin.push_back(kept.back());
      kept = std::move(thin);
    }
    states = std::move(kept);
  }

  Simulator& simulator_;
  const Problem& problem_;
  const Candidates& candidates_;
  SegmentLimits limits_;
  std::vector<int64_t> until_;  // Problem::forward_times()
  Plan eager_;                  // saves everything that the backward reads
  std::vector<Plan> family_;
  std::vector<int32_t> points_;  // positions in the forward, from -1 to the last
  std::vector<std::vector<std::vector<Segment>>> segments_;  // by cut points
};

}  // namespace

std::vector<Plan> segment_plans(Simulator& simulator, const Candidates& candidates,
                                const std::vector<Plan>& family,
                                const std::vector<int64_t>& budgets, const SegmentLimits& limits) {
  std::vector<Plan> plans;
  if (simulator.problem().forward_count < 4) return plans;
  const Composer composer(simulator, candidates, family, limits);
  for (const int64_t budget : budgets) {
    if (std::optional<Plan> plan = composer.compose(budget)) plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace antegrad::budget
