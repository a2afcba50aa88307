#pragma once

/// \file
/// The default partition: the forward runs as written, and everything that the backward reads is
/// saved.
///
/// Views are not saved. Their base is saved, and the view is made again where the backward first
/// needs it: a saved view would keep the whole base alive anyway, and saved values must own their
/// storage. Nor are copies with the strides that eager's tensors have where they are parts of a
/// larger one, such as the gates of an LSTM cell: all of them would take the memory of the larger
/// one. Nothing else is recomputed.
///
/// What checkpoints recompute is not saved (tags.h). Each checkpoint starts from its inputs, as in
/// eager mode.
///
/// Run size_only_inputs() (passes/) and dce() before, so that no tensor is saved for its sizes
/// alone.

#include "partition/partition.h"

namespace antegrad {

Partition default_partition(Graph joint);

}  // namespace antegrad
