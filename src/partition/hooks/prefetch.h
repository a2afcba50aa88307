#pragma once

/// \file
/// Lets the backward fetch offloaded tensors to a GPU ahead of their first use.
///
/// A node `antegrad::fetch` becomes two: `fetch_start`, earlier, makes the tensor and begins the
/// copy on a stream of its own; `fetch_wait`, a view of it where the fetch was, lets the current
/// stream wait for the copy. The tensor takes memory from its start on, as a simulation of the new
/// graph says. Fetches to the CPU stay: there is nothing to overlap.
///
/// Runs after apply_hooks() and before reinplacing.

#include <cstdint>
#include <optional>

#include "memory/byte_rules.h"
#include "partition/partition.h"

namespace antegrad {

/// Starts each fetch up to `ahead` fetches before it is read, right after the tensor before those
/// is there, and the first ones at the start of the backward. With `most_bytes`, as early as the
/// peak stays within them.
void prefetch(Partition& partition, int64_t ahead, std::optional<int64_t> most_bytes,
              const ByteRules& rules);

}  // namespace antegrad
