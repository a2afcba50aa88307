#pragma once

/// \file
/// Who computes products of matrices and attention at the level `close`: who is faster on this
/// machine (docs/lowering.md#products).

#include <antegrad/report.h>

#include <cstdint>
#include <vector>

#include "compile/invented_data.h"
#include "graph/graph.h"

namespace antegrad::compiler {

struct OtherProducts {
  Graph graph;
  std::vector<ProductReport> reports = {};  ///< of what libtorch does not compute any more
};

struct ProductRules {
  int64_t threads = 1;
  bool copies = true;  ///< also calls for which an operand has to be copied
  bool on_cpu = true;  ///< also on the CPU: where libtorch may call oneDNN
};

/// The graph with other calls (lower/products.h) where these take less time than libtorch's, copies
/// of operands included. Each shape is measured once per machine, number of threads and build of
/// libtorch, and compared with float64: its errors may be those of another order of summation.
OtherProducts with_other_products(Graph graph, const ProductRules& rules, InventedData& data);

/// The same by what is known. Nothing is run.
Graph with_known_products(Graph graph, const ProductRules& rules);

}  // namespace antegrad::compiler
