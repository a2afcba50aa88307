#pragma once

/// \file
/// Lazy conjugation and negation: libtorch's conj() and _neg_view() return views with a bit that
/// kernels read. A value of a graph has the bits that the views on the way to it set or clear.

#include "graph/graph.h"

namespace antegrad {

struct LazyBits {
  bool conj = false, neg = false;

  friend bool operator==(const LazyBits&, const LazyBits&) = default;
};

/// `bits` behind the view `op`.
LazyBits behind(Op op, LazyBits bits);

/// The bits of a value, where inputs and what is not a view have none. Linear for each view on the
/// way.
LazyBits lazy_bits(const Graph& graph, ValueId value);

}  // namespace antegrad
