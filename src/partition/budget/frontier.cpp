#include "partition/budget/frontier.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "partition/budget/bounds.h"
#include "partition/budget/candidates.h"
#include "partition/budget/checkpoints.h"
#include "partition/budget/exact.h"
#include "partition/budget/price.h"
#include "partition/budget/search.h"
#include "partition/budget/segments.h"

namespace antegrad::budget {
namespace {

/// With more values to decide, a proof cannot finish within the limits.
constexpr size_t kMostToProve = 64;
/// The number of budgets for which a proof is attempted.
constexpr int64_t kProofs = 128;

/// Limits of the search. Those of single searches count measurements. Those of all searches
/// together count Simulator::work(), in units of about 30 ns.
struct Recipe {
  int sweep_depth;
  int checkpoint_depth;
  std::vector<int32_t> segments;
  SegmentLimits compositions;
  int32_t rungs;
  int64_t descent_limit;
  int64_t exchange_limit;
  int64_t window_limit;
  int pushes;
  std::vector<Choice> windows;
  int64_t work;
  int64_t proofs;  ///< bounds of partial plans, for a graph of 100 operations
};

const Recipe kQuick{
    5,          3,     {2, 3, 4, 6, 8, 12, 16, 24, 32}, {14, 8}, 48, 4000, 2000, 1500, 6, {16, 4},
    14'000'000, 20'000};
const Recipe kThorough{7,
                       5,
                       {2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48},
                       {28, 16},
                       64,
                       20000,
                       20000,
                       8000,
                       20,
                       {16, 8, 4, 2},
                       80'000'000,
                       400'000};

class Builder {
 public:
  Builder(const Problem& problem, const FrontierOptions& options)
      : problem_(problem),
        options_(options),
        recipe_(options.effort == BudgetEffort::quick ? &kQuick : &kThorough),
        candidates_(problem),
        simulator_(problem) {
    frontier_.floor = peak_floor(problem);
    eager_ = eager_plan(problem);
    frontier_.eager_peak = simulator_.set(eager_).peak;
  }

  Frontier build() {
    simulator_.set_most_extra(problem_.time * 3 / 2);
    Search search(simulator_, candidates_, frontier_.archive);
    search.start(eager_, frontier_.eager_peak);
    if (candidates_.values().empty()) return finish(search);
    if (options_.effort == BudgetEffort::thorough) {
      start_with(build_frontier(problem_, {BudgetEffort::quick, {}}));
    }
    if (may_pack()) start_with(build_frontier(without_packings(), {options_.effort, {}}));
    make_ladder();
    collect(search);
    work_ahead_ = work_of(kQuick);
    if (options_.effort == BudgetEffort::thorough) work_ahead_ += work_of(kThorough);
    for (const Recipe* recipe : {&kQuick, &kThorough}) {
      recipe_ = recipe;
      const int64_t start = simulator_.work();
      const double work = work_of(*recipe_);
      const auto within = [&](double share) {
        search.set_work_limit(start + static_cast<int64_t>(share * work));
      };
      within(0.35);
      climb_down(search);
      prove();
      within(0.65);
      push_floor(search);
      forget(search);
      within(0.85);
      fill_gaps(search);
      within(1);
      refine(search);
      if (options_.effort == BudgetEffort::quick) break;
    }
    return finish(search);
  }

 private:
  Frontier finish(const Search& search) {
    frontier_.measured += search.measured();
    frontier_.work = simulator_.work();
    tell(1);
    return std::move(frontier_);
  }

  /// Large graphs get more work, but less than in proportion.
  double work_of(const Recipe& recipe) const {
    const double size = std::clamp(static_cast<double>(problem_.values.size()) / 600, 1.0, 4.0);
    return size * static_cast<double>(recipe.work);
  }

  void tell(double done) const {
    if (options_.progress) options_.progress(done);
  }

  /// Reports progress. Recipes may skip work, and earlier work counts too, so the estimate only
  /// grows.
  void tell() const { tell(std::min(1.0, static_cast<double>(simulator_.work()) / work_ahead_)); }

  /// Budgets from the floor to the eager peak, in geometric steps.
  void make_ladder() {
    const double low = static_cast<double>(std::max<int64_t>(frontier_.floor, 1));
    const double high = static_cast<double>(frontier_.eager_peak);
    // Large graphs have fewer rungs, since each costs more.
    const auto rungs = static_cast<int32_t>(std::clamp<size_t>(
        size_t{600} * recipe_->rungs / std::max<size_t>(problem_.values.size(), 1), 12,
        recipe_->rungs));
    for (int32_t i = rungs; i-- > 0;) {
      ladder_.push_back(
          std::llround(low * std::pow(high / low, static_cast<double>(i) / (rungs - 1))));
    }
    ladder_.erase(std::unique(ladder_.begin(), ladder_.end()), ladder_.end());
  }

  /// Collects plans to start from.
  void collect(Search& search) {
    PriceCuts cuts(problem_);
    family_ = cuts.sweep(cuts.bytes(), recipe_->sweep_depth);
    const std::vector<Plan> sweep = family_;
    for (const Crossing crossing : {Crossing::all, Crossing::soon}) {
      for (Plan& plan : checkpoint_plans(problem_, candidates_, cuts, crossing, recipe_->segments,
                                         recipe_->checkpoint_depth)) {
        family_.push_back(std::move(plan));
      }
    }
    std::vector<int64_t> budgets;
    for (size_t i = 0; i < ladder_.size(); i += 3) budgets.push_back(ladder_[i]);
    for (Plan& plan :
         segment_plans(simulator_, candidates_, sweep, budgets, recipe_->compositions)) {
      family_.push_back(std::move(plan));
    }
    add_packed();
    for (const Plan& plan : family_) search.start(plan, frontier_.eager_peak);
  }

  /// Whether plans may choose to pack values.
  bool may_pack() const {
    return std::ranges::any_of(problem_.values, [](const Value& value) {
      return value.packing_count > 0 && !value.always_packed;
    });
  }

  Problem without_packings() const {
    Problem plain = problem_;
    plain.packings.clear();
    for (Value& value : plain.values) value.packing_count = 0;
    return plain;
  }

  /// Starts from the plans of another frontier, with less effort or fewer choices, so that answers
  /// are never worse than its own.
  void start_with(const Frontier& other) {
    for (const PlanPoint& point : other.archive.points()) {
      frontier_.archive.offer({point.peak, point.extra, 0}, *point.plan);
    }
    frontier_.measured += other.measured;
  }

  /// Adds the same plans with all saved values packed, in each way.
  void add_packed() {
    std::set<Choice> ways;
    for (const int32_t value : candidates_.values()) {
      for (const Packing& packing : problem_.choosable_packings(value)) {
        ways.insert(packed_by(packing));
      }
    }
    const size_t plain = family_.size();
    for (const Choice way : ways) {
      for (size_t f = 0; f < plain; ++f) {
        Plan plan = family_[f];
        for (const int32_t v : candidates_.values()) {
          if (plan[v] == kSave && packing_of(problem_, v, way) >= 0) plan[v] = way;
        }
        family_.push_back(std::move(plan));
      }
    }
  }

  /// Greedy descents: one that continues from rung to rung, and one from the best known plan at
  /// each rung.
  void climb_down(Search& search) {
    search.start(eager_, frontier_.eager_peak);
    for (const bool continues : {true, false}) {
      Plan plan = eager_;
      for (const int64_t rung : ladder_) {
        if (search.is_spent()) return;
        tell();
        search.start(plan, rung);
        if (!search.descend(recipe_->descent_limit)) break;
        if (continues) plan = simulator_.plan();
        search.use_room(recipe_->descent_limit);
      }
    }
    for (const int64_t rung : ladder_) improve(search, rung);
  }

  void improve(Search& search, int64_t rung) {
    const std::optional<PlanPoint> known = frontier_.archive.at_most(rung);
    if (!known || search.is_spent()) return;
    tell();
    search.start(*known->plan, rung);
    search.use_room(recipe_->descent_limit);
    search.exchange(recipe_->exchange_limit);
  }

  /// Searches smaller plans from the smallest known one, until none is found.
  void push_floor(Search& search) {
    for (int round = 0; round < recipe_->pushes; ++round) {
      tell();
      const PlanPoint smallest = frontier_.archive.smallest();
      if (smallest.peak <= frontier_.floor || search.is_spent()) return;
      for (const double share : {0.995, 0.98, 0.95}) {
        const auto budget = std::max(
            frontier_.floor, static_cast<int64_t>(share * static_cast<double>(smallest.peak)));
        search.start(*smallest.plan, budget);
        if (search.descend(recipe_->descent_limit)) search.use_room(recipe_->descent_limit);
      }
      if (frontier_.archive.smallest().peak == smallest.peak) return;
    }
  }

  /// Near the smallest peaks: a recomputed value is dropped and recomputed again instead of waiting
  /// for a late use.
  void forget(Search& search) {
    for (const Choice window : recipe_->windows) {
      search.set_window(window);
      for (int32_t back = 0; back < 8; back += 2) {
        const auto first = std::ranges::find_if(
            ladder_, [&](int64_t rung) { return rung < frontier_.archive.smallest().peak; });
        const auto from = first - std::min<std::ptrdiff_t>(back, first - ladder_.begin());
        const std::optional<PlanPoint> known =
            from == ladder_.end() ? std::nullopt : frontier_.archive.at_most(*from);
        Plan plan = known ? *known->plan : *frontier_.archive.smallest().plan;
        for (Choice& choice : plan) {
          if (!is_kept(choice)) choice = window;
        }
        for (auto rung = from; rung != ladder_.end() && !search.is_spent(); ++rung) {
          search.start(plan, *rung);
          if (!search.descend(recipe_->descent_limit)) break;
          search.use_room(recipe_->descent_limit);
          plan = simulator_.plan();
        }
      }
      push_floor(search);
    }
    search.set_window(0);
  }

  /// Searches for plans between neighbours on the frontier that are far apart in time.
  void fill_gaps(Search& search) {
    std::set<int64_t> tried;
    while (!search.is_spent()) {
      const std::vector<PlanPoint> points = frontier_.archive.points();
      size_t widest = points.size();
      int64_t gap = problem_.time / 2000;
      for (size_t i = 1; i < points.size(); ++i) {
        const int64_t between = points[i].extra - points[i - 1].extra;
        if (between <= gap || tried.count(middle(points, i))) continue;
        gap = between;
        widest = i;
      }
      if (widest == points.size()) return;
      const int64_t budget = middle(points, widest);
      tried.insert(budget);
      tell();
      search.start(*points[widest].plan, budget);
      search.use_room(recipe_->descent_limit);
      search.exchange(recipe_->exchange_limit);
      search.start(*points[widest - 1].plan, budget);
      if (search.descend(recipe_->descent_limit)) search.use_room(recipe_->descent_limit);
      search_windows(search, budget, recipe_->window_limit / 2);
    }
  }

  /// Solves small graphs exactly. Starts at the largest peak and finds the fastest plan; then
  /// continues with smaller peaks.
  void prove() {
    // Bounds do not support packings.
    if (candidates_.values().size() > kMostToProve || !problem_.packings.empty()) return;
    const auto sides = static_cast<double>(problem_.forward_count) * problem_.backward_count();
    int64_t left =
        static_cast<int64_t>(static_cast<double>(recipe_->proofs) * std::min(1.0, 2500 / sides));
    const auto take = [&](const ExactAnswer& answer) {
      left -= answer.measured;
      frontier_.measured += answer.measured;
      if (answer.best)
        frontier_.archive.offer({answer.best->peak, answer.best->extra, 0}, *answer.best->plan);
      return answer.best;
    };
    take(smallest_exactly(problem_, {left / 4}, frontier_.archive.smallest()));
    const int64_t lowest = frontier_.archive.smallest().peak;
    const int64_t step = std::max<int64_t>(1, (frontier_.eager_peak - lowest) / kProofs);
    for (int64_t budget = frontier_.eager_peak; budget >= lowest && left > 0;) {
      const auto best =
          take(solve_exactly(problem_, budget, {left / 3}, frontier_.archive.at_most(budget)));
      budget = std::min(budget - step, best ? best->peak - 1 : budget);
    }
  }

  static int64_t middle(const std::vector<PlanPoint>& points, size_t i) {
    return (points[i - 1].peak + points[i].peak) / 2;
  }

  void search_windows(Search& search, int64_t budget, int64_t limit) {
    const std::optional<PlanPoint> known = frontier_.archive.at_most(budget);
    if (!known) return;
    search.start(*known->plan, budget);
    search.search_windows(limit, static_cast<uint64_t>(budget), family_);
    search.exchange(recipe_->exchange_limit);
  }

  void refine(Search& search) {
    for (size_t i = 0; i < ladder_.size() && !search.is_spent(); i += 2) {
      search_windows(search, ladder_[i], recipe_->window_limit);
      tell();
    }
    for (const int64_t rung : ladder_) improve(search, rung);
  }

  const Problem& problem_;
  const FrontierOptions& options_;
  const Recipe* recipe_;
  Candidates candidates_;
  Simulator simulator_;
  Frontier frontier_;
  Plan eager_;
  std::vector<Plan> family_;
  double work_ahead_ = 1;
  std::vector<int64_t> ladder_;  // budgets, largest first
};

}  // namespace

Frontier build_frontier(const Problem& problem, const FrontierOptions& options) {
  return Builder(problem, options).build();
}

}  // namespace antegrad::budget
