#pragma once

/// \file
/// Shrinks a graph that fails to a small one that fails in the same way: delta debugging over
/// nodes, outputs and inputs. Knows nothing of failures: the caller says what fails.

#include <functional>

#include "graph/graph.h"

namespace antegrad {

struct Shrinking {
  /// Whether a graph fails as the original does. Must not throw. Called with valid graphs, unless
  /// the original is invalid itself.
  std::function<bool(const Graph&)> fails;
  /// Called with each smaller graph that fails, the smallest last.
  std::function<void(const Graph&)> found = [](const Graph&) {};
  /// Whether to stop with the smallest graph so far.
  std::function<bool()> stop = [] { return false; };
};

/// The smallest graph that was found: no smaller one that fails is a single edit away, unless it
/// was stopped. The original, which is assumed to fail, where there is none. Deterministic.
Graph shrink(Graph graph, const Shrinking& shrinking);

}  // namespace antegrad
