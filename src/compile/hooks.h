#pragma once

/// \file
/// Hooks on saved tensors of one program: which tensors they stand for, and what they compute.

#include <antegrad/options.h>
#include <antegrad/report.h>
#include <antegrad/saved_tensors.h>

#include <memory>

#include "partition/hooks.h"
#include "partition/partition.h"

namespace antegrad::compiler {

/// Captures the hooks for the saved tensors of a partition that the filter names, on the metadata of each, and says in the
/// report which these are. `first_node`: ids from here on are no node's. Throws CaptureError and its kinds for hooks that
/// cannot be captured, HookError for hooks that do not give back what was saved, and what hooks throw.
Hooked capture_hooks(const detail::HookPair& hooks, const Partition& partition, HookFilter filter,
                     int32_t first_node, ProgramReport& report);

}  // namespace antegrad::compiler
