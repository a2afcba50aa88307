#pragma once

/// \file
/// Compares two graphs, value ids included. Hash128 (hash.h) answers a weaker question: whether
/// two graphs compute the same, however their values are numbered.

#include <string>

#include "graph/graph.h"

namespace antegrad {

/// Describes the first difference in what inputs, nodes and outputs mention: names, ids, metadata,
/// storages, records and arguments. Empty if there is none. Unused values are not compared.
std::string first_difference(const Graph& a, const Graph& b);

}  // namespace antegrad
