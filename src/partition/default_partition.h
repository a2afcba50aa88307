#pragma once

/// \file
/// The default partition: the forward as it was written; whatever the backward reads is saved.
///
/// Views are not saved but their base, and made again where the backward first needs them: a saved
/// view would keep the whole base alive anyway, and saved values must own their storage. Nothing
/// else is computed twice.
///
/// What checkpoints compute again is not saved (tags.h): each starts from what reached it, as in eager.
///
/// Run size_only_inputs() (passes/) and dce() before, so that no tensor is saved for its sizes
/// alone.

#include "partition/partition.h"

namespace antegrad {

Partition default_partition(Graph joint);

}  // namespace antegrad
