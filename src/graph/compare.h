#pragma once

/// \file
/// Whether two graphs are the same, value ids included. Hash128 (hash.h) answers the weaker
/// question whether two graphs compute the same, however their values are numbered.

#include <string>

#include "graph/graph.h"

namespace antegrad {

/// True when everything that inputs, nodes and outputs mention is equal: names, ids, metadata,
/// storages, records and arguments. Values that nothing mentions are not compared.
bool same_graph(const Graph& a, const Graph& b);

/// Where the first difference is, in words; empty when there is none. For tests and audits.
std::string first_difference(const Graph& a, const Graph& b);

}  // namespace antegrad
