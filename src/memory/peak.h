#pragma once

/// \file
/// Simulates a forward and its backward, node by node, and reports the live memory at each.
///
/// The peak is defined in docs/architecture.md: bytes live in the device's allocator between entry
/// of the call and end of the backward, minus those live at entry.
///  - Primals are live at entry and count nothing, saved or not.
///  - Results stay until the end of the backward: the caller holds them.
///  - Values that are written back to inputs live until the end of the forward, staged ones from
///    its start.
///  - A saved value lives until its last use in the backward, and so does a saved generator state.
///  - Tangents count from the start to the end of the backward: its caller holds them.
///  - Gradients count until the end, as if `.grad` were undefined before.
///  - The outputs of a node are allocated while its inputs are live. Unused outputs are freed right
///    after the node. In-place nodes and views allocate nothing.
///  - Results of fused nodes take memory only if they are saved (ByteRules::fused).
///  - Scratch memory of kernels counts if the rules know it. Eager code between the two passes does
///    not count.
///
/// Both graphs must be verified. Linear in their size.

#include <cstdint>
#include <vector>

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"

namespace antegrad {

struct Timeline {
  struct Point {
    int32_t node_id = -1;  ///< Node::id
    int64_t live = 0;      ///< bytes live while the node runs
    Op op;
    Phase pass = Phase::forward;  ///< which of the two graphs runs it
  };
  std::vector<Point> points;  ///< one per node, in order of execution
  int64_t peak_bytes = 0;
  /// Index into `points` of the first highest point; -1 if the peak is not at a node.
  int32_t peak_position = -1;
  /// Rounded bytes of saved values between the two passes, without primals and results.
  int64_t saved_bytes = 0;
};

/// `plan` belongs to these graphs; their nodes may have been changed to in-place forms since.
Timeline simulate(const CallPlan& plan, const Graph& forward, const Graph& backward,
                  const ByteRules& rules = {});

}  // namespace antegrad
