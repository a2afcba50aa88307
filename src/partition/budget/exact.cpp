#include "partition/budget/exact.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "partition/budget/bounds.h"
#include "partition/budget/candidates.h"
#include "partition/budget/simulator.h"

namespace antegrad::budget {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
/// The number of values tried before branching on one.
constexpr size_t kTried = 12;

enum class Goal : uint8_t { least_time, least_peak };

class Solver {
 public:
  Solver(const Problem& problem, Goal goal, int64_t budget, const ExactLimits& limits,
         std::optional<PlanPoint> incumbent)
      : problem_(problem),
        goal_(goal),
        limit_(limits.measured),
        budget_(budget),
        bounds_(problem),
        simulator_(problem) {
    choices_ = Candidates(problem).values();
    std::ranges::stable_sort(choices_, [&](int32_t a, int32_t b) {
      return problem.value(a).bytes > problem.value(b).bytes;
    });
    plan_.assign(problem.values.size(), kRecompute);
    for (const int32_t v : choices_) plan_[v] = kOpen;
    if (incumbent) take(*std::move(incumbent));
  }

  ExactAnswer solve() {
    explore();
    return {std::move(best_), !gave_up_, measured_};
  }

 private:
  void take(PlanPoint point) {
    if (goal_ == Goal::least_time) {
      most_extra_ = point.extra - 1;
    } else {
      budget_ = point.peak - 1;
    }
    best_ = std::move(point);
  }

  bool is_hopeless(const Bound& bound) const {
    return bound.peak > budget_ || bound.extra > most_extra_;
  }

  Bound bound() {
    ++measured_;
    return bounds_.of(plan_, goal_ == Goal::least_time ? budget_ : kAny);
  }
  Bound bound_with(int32_t value, Choice choice) {
    plan_[value] = choice;
    const Bound found = bound();
    plan_[value] = kOpen;
    return found;
  }

  /// How much of the remaining search a decision settles, from 0 to 1.
  double progress(const Bound& from, const Bound& to) const {
    if (is_hopeless(to)) return 1;
    const auto share = [](int64_t more, int64_t room) {
      return room <= 0 ? 0 : static_cast<double>(more) / static_cast<double>(room + 1);
    };
    const double peak = share(to.peak - from.peak, budget_ - from.peak);
    const double extra =
        most_extra_ == kAny ? 0 : share(to.extra - from.extra, most_extra_ - from.extra);
    return std::max(peak, extra);
  }

  void explore() {
    if (measured_ >= limit_) {
      gave_up_ = true;
      return;
    }
    const Bound here = bound();
    if (is_hopeless(here)) return;
    // Values that every plan needs come first, the largest of them in front.
    std::vector<int32_t> open;
    for (const int32_t v : choices_) {
      if (plan_[v] == kOpen && bounds_.may_be_needed(v)) open.push_back(v);
    }
    if (open.empty()) return finish();
    std::stable_partition(open.begin(), open.end(),
                          [&](int32_t v) { return bounds_.is_needed(v); });
    open.resize(std::min(open.size(), kTried));
    int32_t chosen = open.front();
    double best = -1;
    Choice first = kRecompute;
    for (const int32_t v : open) {
      const Bound saved = bound_with(v, kSave);
      const Bound again = bound_with(v, kRecompute);
      if (is_hopeless(saved) && is_hopeless(again)) return;
      const double a = progress(here, saved);
      const double b = progress(here, again);
      const double score = std::min(a, b) + 0.1 * std::max(a, b);
      if (score <= best) continue;
      best = score;
      chosen = v;
      first = a <= b ? kSave : kRecompute;
      if (std::max(a, b) == 1) break;  // only the other choice is possible
    }
    for (const Choice choice : {first, first == kSave ? kRecompute : kSave}) {
      plan_[chosen] = choice;
      explore();
    }
    plan_[chosen] = kOpen;
  }

  /// No operation needs the values that are still open.
  void finish() {
    Plan plan = plan_;
    std::ranges::replace(plan, kOpen, kRecompute);
    const Measure measure = simulator_.set(plan);
    if (is_hopeless({measure.peak, measure.extra})) return;
    take({measure.peak, measure.extra, std::make_shared<const Plan>(std::move(plan))});
  }

  const Problem& problem_;
  Goal goal_;
  int64_t limit_;
  int64_t budget_;             ///< upper limit of the peak of plans
  int64_t most_extra_ = kAny;  ///< upper limit of their additional time
  Bounds bounds_;
  Simulator simulator_;
  std::vector<int32_t> choices_;  ///< largest first
  Plan plan_;
  std::optional<PlanPoint> best_;
  int64_t measured_ = 0;
  bool gave_up_ = false;
};

}  // namespace

ExactAnswer solve_exactly(const Problem& problem, int64_t budget, const ExactLimits& limits,
                          std::optional<PlanPoint> incumbent) {
  return Solver(problem, Goal::least_time, budget, limits, std::move(incumbent)).solve();
}

ExactAnswer smallest_exactly(const Problem& problem, const ExactLimits& limits,
                             std::optional<PlanPoint> incumbent) {
  return Solver(problem, Goal::least_peak, kAny, limits, std::move(incumbent)).solve();
}

}  // namespace antegrad::budget
