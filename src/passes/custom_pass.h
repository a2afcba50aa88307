#pragma once

/// \file
/// Passes of the user's own on the joint graph (antegrad/passes.h), by name.

#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// Names of the passes that were registered, sorted.
std::vector<std::string> custom_passes();

/// Throws OptionError for a name that was not registered; "" is no pass and passes.
void check_custom_pass(const std::string& name);

/// The graph that PassContext::custom_pass makes of this one. Throws GraphError, in the name of the
/// pass, for a text that is no valid graph or whose inputs and outputs are not those of `graph`,
/// and what the pass throws.
Graph run_custom_pass(Graph graph, const PassContext& context);

}  // namespace antegrad
