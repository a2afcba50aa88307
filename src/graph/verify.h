#pragma once

/// \file
/// States the invariants of every graph between passes, and checks them.
///
/// The rules are in a table in verify.cpp, each a small function with a name. Runs after each pass
/// in debug builds and in all tests. Linear in the size of the graph.

#include <string>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Throws InternalError that names the first rule that does not hold and shows the node at fault.
void verify(const Graph& graph);

/// Names of all rules in the order of checking: a rule comes before those that depend on it.
std::vector<std::string> verifier_rules();

}  // namespace antegrad
