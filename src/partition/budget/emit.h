#pragma once

/// \file
/// From a plan to the forward and the backward that run as it says.

#include "graph/graph.h"
#include "partition/budget/timetable.h"
#include "partition/partition.h"

namespace antegrad::budget {

/// The partition that the plan stands for; `joint` is the graph of its problem. What runs when is what the timetable
/// says.
Partition emit(Graph joint, const Timetable& timetable);

}  // namespace antegrad::budget
