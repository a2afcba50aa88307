#pragma once

/// \file
/// The partitioner `budget`: keeps a step within a number of bytes, at the least cost in time
/// (budget/planner.h).

#include "partition/budget/problem.h"
#include "partition/partitioner.h"

namespace antegrad {

/// What there is to plan for a joint graph: memory and time as `choice` counts them. Throws
/// OptionError for an unknown machine.
budget::Problem problem_of(const Graph& joint, const PartitionChoice& choice);

/// Partitioning throws BudgetError if no plan fits, OptionError for an unknown machine.
PartitionerRow budget_partitioner();

}  // namespace antegrad
