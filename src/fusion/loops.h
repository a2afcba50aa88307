#pragma once

/// \file
/// The loops that generated code would run for a node, as far as it matters to what may share them.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// A pointwise node runs over `rows` elements. A reduction runs over `rows` x `depth` elements and makes `rows`.
struct Loops {
  int64_t rows = 1;
  int64_t depth = 1;
  bool reduces = false;
  bool columns = false;  ///< the reduction is over the first dimensions, not the last ones

  int64_t elements() const { return rows * depth; }
};

/// Nothing for what generated code does not compute in a loop of its own size: other operators, views, what writes
/// its input, draws of whole numbers from no tensor (a permutation), memory that nobody writes, empty tensors, outputs
/// of different sizes, and reductions over dimensions in the middle.
std::optional<Loops> loops_of(const Graph& graph, const Node& node,
                              const std::vector<int64_t>& symbols = {});

/// Loops in which both can run, the one behind the other; nothing when there are none. They must have as many
/// elements, or one as many as the other has rows. `apart`: a reordering view lies between nodes of the two
/// somewhere, which rows do not survive.
std::optional<Loops> common_loops(const Loops& a, const Loops& b, bool apart);

/// Whether what runs in `small` can be computed inside of `large` where it is read: it is pointwise and broadcast there.
bool broadcasts_into(const Loops& small, const Loops& large);

}  // namespace antegrad
