#pragma once

/// \file
/// User-defined passes on the joint graph (antegrad/passes.h), by name.

#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// Names of the registered passes, sorted.
std::vector<std::string> custom_passes();

/// Throws OptionError for a name that is not registered. "" means no pass and is valid.
void check_custom_pass(const std::string& name);

/// Runs PassContext::custom_pass on a graph. Throws GraphError with the name of the pass if the
/// result is not a valid graph or has other inputs or outputs than `graph`. Exceptions of the pass
/// propagate.
Graph run_custom_pass(Graph graph, const PassContext& context);

}  // namespace antegrad
