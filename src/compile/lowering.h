#pragma once

/// \file
/// From a forward or backward graph to one whose groups of nodes are generated kernels that can be
/// called (docs/lowering.md).

#include <antegrad/options.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "lower/kernel_graph.h"
#include "ops/attrs.h"
#include "runtime/generated_kernel.h"

namespace antegrad::compiler {

struct LoweredGraph {
  Graph graph;
  std::vector<runtime::GeneratedKernel> kernels = {};  ///< by place, as generated nodes name them
  std::vector<lower::LibraryNode> refused = {};        ///< nodes that stayed library calls
  std::string failure = {};  ///< why there are no kernels, although there could be; "reason: text"
};

/// Lowers a graph that has no in-place nodes yet. `tables` are those of its attributes. Never
/// throws for what the machine is like: without a compiler, or when a kernel cannot be made or does
/// not prove itself, nodes stay library calls. A reason that holds for all graphs is logged once.
LoweredGraph lower_graph(Graph graph, const ops::AttrTables& tables, Lowering lowering);

/// For tests: changes each kernel before it becomes code, and forgets what is known of kernels.
/// Null for none.
void set_kernel_fault(std::function<void(lower::Kernel&)> fault);

}  // namespace antegrad::compiler
