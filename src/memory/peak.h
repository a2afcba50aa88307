#pragma once

/// \file
/// Simulates a forward and its backward, node by node, and says how much memory is alive when.
///
/// What is counted, as defined in docs: bytes alive through the device's allocator between entry of
/// the call and end of backward, less those alive at entry.
///  - Primals are alive at entry and count nothing, saved or not.
///  - Results stay until the end of backward: the caller holds them.
///  - What is written back to inputs lives until the end of the forward.
///  - A saved value lives until its last use in the backward, the state of a generator as well.
///  - Tangents count from the start of the backward to its end: whoever called it holds them.
///  - Gradients count until the end, as if `.grad` were undefined before.
///  - A node's outputs are allocated while its inputs are alive; outputs that nothing uses are
///    freed right after it. In-place nodes and views allocate nothing.
/// Scratch memory of kernels counts as far as the rules tell it. Eager code between the two passes
/// does not.
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
    int64_t live = 0;      ///< bytes while the node runs
    Op op;
    Phase pass = Phase::forward;  ///< which of the two graphs runs it
  };
  std::vector<Point> points;  ///< one a node, in order of execution
  int64_t peak_bytes = 0;
  /// Index into `points` of the first highest one; -1 when the peak lies outside of all nodes.
  int32_t peak_position = -1;
  /// Bytes, rounded, held between the two passes because they are saved: without primals and
  /// results.
  int64_t saved_bytes = 0;
};

/// `plan`: of these graphs, which may have been changed to write in place since.
Timeline simulate(const CallPlan& plan, const Graph& forward, const Graph& backward,
                  const ByteRules& rules = {});

}  // namespace antegrad
