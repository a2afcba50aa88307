#pragma once

/// \file
/// The partition in which each saved byte has a price: what it takes to read it back, and to fault
/// in its memory. A value is saved unless computing it again takes less. That is one minimum cut
/// (budget/price.h).
///
/// Errors are those of the default partition: the backward reads no tensor of the caller that it
/// would not read anyway, so the caller may change these in between.

#include "partition/partitioner.h"

namespace antegrad {

/// `choice` names the machine and has its times. A plan that does not lower the peak is not taken:
/// all that the backward reads is saved then. So it is where checkpoints say what is recomputed.
Partitioned priced_partition(Graph joint, const PartitionChoice& choice);

}  // namespace antegrad
