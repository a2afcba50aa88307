#pragma once

/// \file
/// Made-up data for the inputs of a graph, from a seed.
///
/// A tensor's data follow from the seed and its ValueId alone, so that an input keeps them while
/// the graph shrinks. Indices are valid for the operators that read them.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::minify {

/// How data are made up; the next way serves where kernels refuse the data of one, or where results
/// are not finite.
enum class Data : uint8_t {
  normal,    ///< normally distributed; indices from their whole range
  positive,  ///< between 0.1 and 1.1
  zeros,     ///< the same; all integers are 0
};
inline constexpr Data kAllData[] = {Data::normal, Data::positive, Data::zeros};

/// One tensor per input, undefined for tokens.
std::vector<at::Tensor> make_inputs(const Graph& graph, uint64_t seed, Data data);

/// A copy with its own memory and the same strides and offset.
at::Tensor copy_of(const at::Tensor& tensor);

/// Tables for a graph from a file: new generators stand for those of the caller. Throws GraphError
/// for a graph that cannot run: with objects that a file cannot hold, or with symbolic sizes.
ops::AttrTables make_tables(const Graph& graph, uint64_t seed);

}  // namespace antegrad::minify
