#pragma once

/// \file
/// Products of two matrices in a graph, with a bias that another node adds to them.

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/analysis.h"
#include "graph/graph.h"
#include "lower/storage_readers.h"

namespace antegrad::lower {

/// Who makes and who reads the values of a graph. Stays right for what stands before a position
/// when nodes from there on change.
struct GraphUses {
  IdMap<ValueId, int32_t> producers;
  StorageReaders readers;

  explicit GraphUses(const Graph& graph) : producers(antegrad::producers(graph)), readers(graph) {}
};

/// A product of two matrices, perhaps with a bias for each column, as nodes compute it.
struct Product {
  std::vector<int32_t> nodes;  ///< positions, ascending; the last one makes the result
  ValueId a = kNoValue;        ///< [rows, inner]
  ValueId b = kNoValue;        ///< [inner, columns]
  ValueId bias = kNoValue;     ///< [columns], or none
  ValueId result = kNoValue;   ///< [..., columns]: `rows` rows
};

/// The product that the node at `position` computes: `mm`, or `addmm` with a bias for each column
/// and without factors. Nothing for other nodes.
std::optional<Product> product_at(const Graph& graph, int32_t position);

/// The product to which the node at `position` adds a bias for each column, where nobody else reads
/// it: `mm`, perhaps a view of it as a tensor of more dimensions, and `add`. Nothing for other
/// nodes.
std::optional<Product> biased_product_at(const Graph& graph, const GraphUses& uses,
                                         int32_t position);

}  // namespace antegrad::lower
