#pragma once

/// \file
/// The partition for a budget in bytes: the frontier of a joint graph, a pick from it, and why each value is saved or
/// computed again.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/cost.h"
#include "partition/budget/frontier.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"
#include "partition/partition.h"

namespace antegrad::budget {

/// Why a value is what it is in a plan, and what the other choice would cost.
struct Reason {
  int32_t value = -1;  ///< of the problem
  Choice choice = kRecompute;
  int32_t packing = -1;  ///< of Problem::packings, in which it waits for the backward
  bool decided = false;  ///< by the plan; or else the rule is the only way
  /// "cheaper to save", "free: held as a result", ...; lives for ever. See reasons().
  std::string_view rule;
  int64_t runs = 0;    ///< how often its operation runs in the backward
  bool moved = false;  ///< the first of these is the first of all: the forward does not run it
  /// The plan with the other choice (saved for computed again, and computed again for saved or packed), against the plan as
  /// it is: bytes of peak and picoseconds. Zero where there is no other choice.
  int64_t other_peak = 0;
  int64_t other_extra = 0;
};

/// Immutable once made; its members may be called on any thread.
class Planner {
 public:
  /// `joint`: verified, simplified, with gradients; must outlive the planner. `seconds`: by node.
  Planner(const Graph& joint, const std::vector<double>& seconds, const ByteRules& rules = {},
          const FrontierOptions& options = {}, const Packings& packings = {});

  const Graph& joint() const { return joint_; }
  const Problem& problem() const { return problem_; }
  /// Names of ways to pack, by Packing::way.
  const std::vector<std::string>& ways() const { return ways_; }
  const Frontier& frontier() const { return *frontier_; }

  /// The fastest known plan within the budget. Throws BudgetError, which states the smallest feasible budget, when
  /// there is none.
  PlanPoint pick(int64_t budget) const;
  /// The plan that saves all that the backward reads.
  PlanPoint eager() const;
  /// The forward and backward of a plan, with a decision for each value that the backward needs from the forward.
  Partition partition(const PlanPoint& point) const;
  /// One a value of the forward that the backward needs, in order.
  std::vector<Reason> reasons(const PlanPoint& point) const;

 private:
  const Graph& joint_;
  Problem problem_;
  std::vector<std::string> ways_;
  std::shared_ptr<const Frontier> frontier_;
};

/// Times of the graph's nodes by a roofline of the machine that they run on (fusion/cost.h): kGpu where a tensor is
/// on a CUDA device, or else kCpu.
std::vector<double> roofline(const Graph& graph, const ByteRules& rules = {});
/// The same on a machine of the caller's choice.
std::vector<double> roofline(const Graph& graph, const Machine& machine,
                             const ByteRules& rules = {});
/// "gpu" or "cpu": whose times the first roofline() takes, for machine_named().
std::string_view machine_of(const Graph& graph);

}  // namespace antegrad::budget
