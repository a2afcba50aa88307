#pragma once

/// \file
/// The loops that generated code would run for a node, as far as they decide which nodes can share
/// them.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// A pointwise node runs over `rows` elements. A reduction runs over `rows` x `depth` elements and
/// makes `rows`.
struct Loops {
  int64_t rows = 1;
  int64_t depth = 1;
  bool reduces = false;
  bool columns = false;   ///< the reduction is over the first dimensions, not the last ones
  bool channels = false;  ///< the reduction is over all dimensions but the second one

  int64_t elements() const { return rows * depth; }
};

/// Nothing for a node that generated code does not compute in a loop of its own size: other
/// operators, views, nodes that write their input, draws of integers from no tensor (a
/// permutation), memory that nobody writes, empty tensors, outputs of different sizes, and
/// reductions over dimensions in the middle.
std::optional<Loops> loops_of(const Graph& graph, const Node& node,
                              const std::vector<int64_t>& symbols = {});

/// The loops of an operator over rows: it reduces the last dimensions of an input, or all but the
/// second one, and returns a value with all elements, as softmax and normalisations do. Generated
/// code can compute these, but they make no pairs of fusing.h, since recomputing one costs more
/// than its inputs.
/// `shared`: how many of its outputs run over the rows or their elements; others are sums over
/// rows.
struct RowLoops {
  Loops loops;
  size_t shared = 1;
};
std::optional<RowLoops> row_loops_of(const Graph& graph, const Node& node,
                                     const std::vector<int64_t>& symbols = {});

/// The loops of an operator whose result has its inputs side by side, if these have one shape: they
/// run over the elements of an input. Nobody can read the result in them.
std::optional<Loops> part_loops_of(const Graph& graph, const Node& node,
                                   const std::vector<int64_t>& symbols = {});

/// The loops of an operator over windows of an image: they run over what it makes. What it reads is
/// in memory, and it shares them with nobody.
std::optional<Loops> window_loops_of(const Graph& graph, const Node& node,
                                     const std::vector<int64_t>& symbols = {});

/// Whether a node only shows the elements of its input: a view of its dtype. Loops look through it.
bool only_shows(const Graph& graph, const Node& node);

/// Loops in which both can run, one after the other; nothing if there are none. They must have the
/// same number of elements, or one must have as many as the other has rows. `apart`: a view that
/// reorders elements lies between nodes of the two, which breaks rows.
std::optional<Loops> common_loops(const Loops& a, const Loops& b, bool apart);

/// Whether `small` can be computed inside of `large` where it is read: it is pointwise and
/// broadcast there.
bool broadcasts_into(const Loops& small, const Loops& large);

}  // namespace antegrad
