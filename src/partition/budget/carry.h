#pragma once

/// \file
/// Plans carried over from other sizes of a graph.
///
/// The planner's problems for two sizes of a callable often differ in bytes and times only. Then a
/// plan for one is a plan for the other, and measuring it takes microseconds where finding it took
/// a second. Whether it is a good plan there as well shows in the smallest peak: it must be as
/// close to the bound that no plan gets below as it was for the sizes it was made for.

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "partition/budget/frontier.h"
#include "partition/budget/plan.h"
#include "partition/budget/problem.h"

namespace antegrad::budget {

/// Whether the problems are equal but for bytes and times, so that they have the same plans.
bool same_structure(const Problem& a, const Problem& b);

/// The frontier of these plans and the one that saves everything. Peaks are exact.
Frontier frontier_of_plans(const Problem& problem, std::span<const Plan> plans);

/// The plans of another frontier, measured in this problem of the same structure; nothing if they
/// do not suit it. Takes about 1 % of the time of build_frontier().
std::optional<Frontier> carried_frontier(const Problem& problem, const Frontier& other);

/// A plan in a form that does not depend on the problem: its decisions other than kRecompute, by
/// value of the graph.
using Decisions = std::vector<std::pair<ValueId, Choice>>;
Decisions decisions_of(const Problem& problem, const Plan& plan);
/// The plan with these decisions. Throws GraphError if one of them cannot be made here.
Plan plan_of(const Problem& problem, const Decisions& decisions);

}  // namespace antegrad::budget
