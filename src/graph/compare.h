#pragma once

/// \file
/// Compares two graphs, value ids included. Hash128 (hash.h) answers a weaker question: whether
/// two graphs compute the same, however their values are numbered.

#include <string>

#include "graph/graph.h"

namespace antegrad {

/// True if everything that inputs, nodes and outputs mention is equal: names, ids, metadata,
/// storages, records and arguments. Unused values are not compared.
bool same_graph(const Graph& a, const Graph& b);

/// Describes the first difference; empty if there is none. For tests and audits.
std::string first_difference(const Graph& a, const Graph& b);

}  // namespace antegrad
