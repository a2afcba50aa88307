#pragma once

/// \file
/// Predicts, for a joint graph that a compiler of kernels will lower, which results take no memory
/// unless they are saved, and what the nodes then cost.
///
/// A node is fused if generated code can compute it in the loop of each node that reads it, in the
/// forward and in the backward (fusing.h, loops.h), and if no kernel of another kind runs between
/// the last use of one of its inputs and its own. So the prediction is by pairs of nodes and holds
/// for every partition. Compilers merge more, within a kernel, and less, where kernels would get
/// too long.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// By Node::id, for ByteRules::fused. Results that a graph output shows are in memory, so their
/// nodes are not fused. `symbols`: values of the graph's symbols, by SymbolId.
std::vector<bool> fused_nodes(const Graph& joint, const std::vector<int64_t>& symbols = {});

/// Seconds by Node::id on the named machine (cost/machine.h). A fused node moves no memory and is
/// no kernel of its own; the others do not read what fused nodes make. But a reduction takes the
/// time of reading its inputs even so: its readers need a second loop over them, in which
/// everything that makes them is computed again. And each function, such as `tanh`, and each draw
/// takes the time of computing its results.
std::vector<double> fused_seconds(const Graph& joint, const std::vector<bool>& fused,
                                  std::string_view machine,
                                  const std::vector<int64_t>& symbols = {});

}  // namespace antegrad
