#pragma once

/// \file
/// From a graph that fails in a stage to a small one that fails in the same way, with the words and
/// the script to report it.

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "minify/stages.h"

namespace antegrad::minify {

struct Watcher {
  std::function<void(const Graph& smaller)> found = [](const Graph&) {};
  std::function<bool()> stop = [] { return false; };
};

struct Minified {
  Subject subject;  ///< the small graph
  Failure failure;  ///< of it
  /// The passes that may be disabled and without any of which it does not fail.
  std::vector<std::string> needed_passes;
};

/// Shrinks nodes, inputs and outputs, then sizes. `failure` is that of the subject.
Minified minify(Subject subject, const Failure& failure, const Watcher& watcher = {});

/// A script for sh with the graph in it: it checks the stage that failed again, and exits with 1
/// while it fails.
std::string reproducing_script(const Minified& minified);

}  // namespace antegrad::minify
