#include "partition/ratio_budget.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <antegrad/error.h>

#include "cost/op_flops.h"
#include "graph/analysis.h"
#include "partition/cut_solution.h"
#include "partition/default_partition.h"
#include "partition/knapsack.h"
#include "partition/steps.h"

namespace antegrad {
namespace {

/// Saved bytes as AOTAutograd counts them: with inputs, and with a view and its base if both are
/// saved.
int64_t bytes_of(const StepGraph& steps, const CutSolution& solution) {
  int64_t sum = 0;
  for (int32_t step = 0; step < steps.size(); ++step) {
    const ValueId id = steps[step].value;
    if (solution.saved_steps()[step] && id != kNoValue) sum += steps.bytes(id);
  }
  return sum;
}

int64_t bytes_of_primals(const StepGraph& steps) {
  int64_t sum = 0;
  for (const Input& input : steps.graph().inputs) {
    if (input.kind == InputKind::primal) sum += steps.bytes(input.value);
  }
  return sum;
}

MinCutOptions without_bans(MinCutOptions options, bool allowlist) {
  options.ban_recompute_used_far_apart = false;
  options.ban_recompute_long_fusible_chains = false;
  options.ban_recompute_materialized_backward = false;
  if (!allowlist) options.ban_recompute_not_in_allowlist = false;
  return options;
}

/// The cut by the usual rules, and the candidates for recomputation that costs time.
class RatioChoice {
 public:
  RatioChoice(const StepGraph& steps, const MinCutOptions& options,
              const std::vector<double>& seconds)
      : steps_(steps),
        options_(options),
        seconds_(seconds),
        usual_(steps, options),
        least_bytes_(bytes_of_primals(steps)),
        range_(bytes_of(steps, usual_) - least_bytes_) {}

  /// AOTAutograd uses the ratio only if this range is not empty.
  bool has_range() const { return range_ > 0; }

  /// The position of the saved bytes within the range.
  double place(const CutSolution& solution) const {
    return static_cast<double>(bytes_of(steps_, solution) - least_bytes_) /
           static_cast<double>(range_);
  }

  CutSolution solve() {
    const double ratio = options_.activation_memory_budget;
    if (ratio == 0) return all_lifted();
    if (!has_range()) return usual_;
    for (const bool allowlist : {true, false}) {
      CutSolution cheap(steps_, without_bans(options_, allowlist));
      if (place(cheap) < ratio) return cheap;
    }
    return solve_knapsack_at(ratio).first;
  }

  /// Only the third step. Also returns the time that it gives up.
  std::pair<CutSolution, double> solve_knapsack_at(double ratio) {
    list_items();
    if (steps_of_items_.empty()) return {all_lifted(), 0};
    items_.capacity = ratio * static_cast<double>(range_);
    const std::vector<bool> kept = solve_knapsack(items_, options_.activation_memory_budget_solver);
    Lifting lifting;
    lifting.steps.assign(steps_.size(), false);
    double given_up = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) continue;
      lifting.steps[steps_of_items_[i]] = true;
      given_up += items_.items[i].value;
    }
    return {CutSolution(steps_, aggressive(), lifting), given_up};
  }

 private:
  MinCutOptions aggressive() const { return without_bans(options_, /*allowlist=*/false); }
  CutSolution all_lifted() const {
    Lifting lifting;
    lifting.all = true;
    return CutSolution(steps_, aggressive(), lifting);
  }

  /// Nodes that a rule bans from recomputation and whose results the backward needs, largest first.
  void list_items() {
    if (!items_.items.empty()) return;
    const MinCutOptions options = aggressive();
    const CutSolution solution(steps_, options);
    for (int32_t step = 0; step < steps_.size(); ++step) {
      const bool is_banned = !solution.bans()[step].empty() && may_lift_ban(steps_, options, step);
      if (is_banned && steps_[step].distance < kNeverRead) steps_of_items_.push_back(step);
    }
    std::ranges::stable_sort(steps_of_items_, [&](int32_t a, int32_t b) {
      return steps_.bytes_made(a) > steps_.bytes_made(b);
    });
    for (const int32_t step : steps_of_items_)
      items_.items.push_back({steps_.bytes_made(step), time(step)});
    items_.range = range_;
  }

  double time(int32_t step) const {
    const int32_t position = steps_[step].node;
    const RuntimeEstimator estimator = options_.activation_memory_budget_runtime_estimator;
    if (estimator == RuntimeEstimator::profile) return seconds_[position];
    if (estimator == RuntimeEstimator::testing) return 1;
    const int64_t flops = op_flops(steps_.graph(), *steps_.node(step), steps_.symbols());
    return static_cast<double>(std::max<int64_t>(flops, 1));
  }

  const StepGraph& steps_;
  const MinCutOptions& options_;
  const std::vector<double>& seconds_;
  CutSolution usual_;
  int64_t least_bytes_;
  int64_t range_;
  Knapsack items_;
  std::vector<int32_t> steps_of_items_;
};

void check(const Graph& joint, const MinCutOptions& options, const std::vector<double>& seconds) {
  check_ratio(options);
  if (options.activation_memory_budget_runtime_estimator == RuntimeEstimator::profile &&
      seconds.size() != joint.nodes.size()) {
    throw OptionError(ErrorText{fmt::format("the seconds of {} nodes", joint.nodes.size()),
                                fmt::format("{} numbers", seconds.size()), ""});
  }
}

}  // namespace

void check_ratio(const MinCutOptions& options) {
  const double ratio = options.activation_memory_budget;
  if (!(ratio >= 0 && ratio <= 1)) {
    throw OptionError(
        ErrorText{"an activation_memory_budget from 0 to 1", fmt::format("{}", ratio), ""});
  }
  if (ratio != 1 && options.activation_memory_budget_solver == BudgetSolver::ilp) {
    require_ilp_solver();
  }
}

CutSolution ratio_cut(const StepGraph& steps, const MinCutOptions& options,
                      const std::vector<double>& seconds) {
  if (options.activation_memory_budget == 1) return CutSolution(steps, options);
  check(steps.graph(), options, seconds);
  return RatioChoice(steps, options, seconds).solve();
}

std::vector<RatioPoint> ratio_curve(const Graph& joint, const MinCutOptions& options,
                                    const std::vector<int64_t>& symbols, int32_t steps,
                                    const std::vector<double>& seconds) {
  check(joint, options, seconds);
  if (!has_backward(joint)) return {};
  const StepGraph graph(joint, symbols, options.recomputable_ops);
  RatioChoice choice(graph, options, seconds);
  if (!choice.has_range()) return {};
  std::vector<RatioPoint> points;
  for (int32_t i = 0; i <= steps; ++i) {
    RatioPoint point;
    point.ratio = static_cast<double>(i) / steps;
    const auto [solution, given_up] = choice.solve_knapsack_at(point.ratio);
    point.recomputed = given_up;
    point.memory = choice.place(solution);
    point.saved_bytes = bytes_of(graph, solution);
    points.push_back(point);
  }
  return points;
}

}  // namespace antegrad
