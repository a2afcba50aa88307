#pragma once

/// \file
/// States what holds of every graph between passes, and checks it.
///
/// The rules stand in a table in verify.cpp, each a small function with a name. Runs after each
/// pass in debug builds and in all tests; linear in the size of the graph.

#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Throws InternalError that names the first rule that does not hold and shows the node at fault.
void verify(const Graph& graph);

/// Names of all rules in the order in which they are checked: those that later ones rest on first.
std::vector<std::string> verifier_rules();

}  // namespace antegrad
