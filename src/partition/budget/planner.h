#pragma once

/// \file
/// The partition for a budget in bytes: the frontier of a joint graph, a selection from it, and
/// the reason for each saved or recomputed value.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partition/budget/frontier.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"
#include "partition/partition.h"

namespace antegrad::budget {

/// The reason for a decision in a plan, and the cost of the other choice.
struct Reason {
  int32_t value = -1;  ///< in the problem
  Choice choice = kRecompute;
  int32_t packing = -1;  ///< of Problem::packings, in which it is kept
  bool decided = false;  ///< by the plan; otherwise the rule leaves no choice
  /// "cheaper to save", "free: held as a result", ...; immortal. See reasons().
  std::string_view rule;
  int64_t runs = 0;    ///< how often its operation runs in the backward
  bool moved = false;  ///< its first run is in the backward: the forward does not run it
  /// The plan with the other choice (saved instead of recomputed, recomputed instead of saved or
  /// packed), compared with the plan: bytes of peak and picoseconds. Zero if there is no other
  /// choice.
  int64_t other_peak = 0;
  int64_t other_extra = 0;
};

/// Immutable after construction. Its members may be called on any thread.
class Planner {
 public:
  using FrontierOf = std::function<std::shared_ptr<const Frontier>(const Problem&)>;

  /// `joint`: verified, simplified, with gradients; must outlive the planner. `seconds`: by node.
  Planner(const Graph& joint, const std::vector<double>& seconds, const ByteRules& rules = {},
          const FrontierOptions& options = {}, const Packings& packings = {});
  /// `problem`: made from `joint`, with `packings`. The caller decides which plans to choose from.
  Planner(const Graph& joint, Problem problem, const Packings& packings,
          const FrontierOf& frontier_of);

  const Graph& joint() const { return joint_; }
  const Problem& problem() const { return problem_; }
  /// Names of ways to pack, by Packing::way.
  const std::vector<std::string>& ways() const { return ways_; }
  const Frontier& frontier() const { return *frontier_; }

  /// The fastest known plan within the budget; `byte_time` as in Archive::at_most(). If there is
  /// none, throws BudgetError with the smallest feasible budget.
  PlanPoint pick(int64_t budget, double byte_time = 0) const;
  /// The plan that saves all that the backward reads.
  PlanPoint eager() const;
  /// The forward and backward of a plan, with a decision for each value that the backward needs
  /// from the forward.
  Partition partition(const PlanPoint& point) const;
  /// One per value of the forward that the backward needs, in order.
  std::vector<Reason> reasons(const PlanPoint& point) const;

 private:
  const Graph& joint_;
  Problem problem_;
  std::vector<std::string> ways_;
  std::shared_ptr<const Frontier> frontier_;
};

}  // namespace antegrad::budget
