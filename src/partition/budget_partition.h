#pragma once

/// \file
/// The partitioner `budget`: keeps a step within a number of bytes, at the least cost in time
/// (budget/planner.h).

#include "partition/partitioner.h"

namespace antegrad {

/// Partitioning throws BudgetError if no plan fits, OptionError for an unknown machine.
PartitionerRow budget_partitioner();

}  // namespace antegrad
