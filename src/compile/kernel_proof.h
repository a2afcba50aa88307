#pragma once

/// \file
/// The proof of a generated kernel: it is run beside the library's kernels that it replaces, on
/// invented data, and believed if all bits are equal. Recipes may be wrong for a machine on which
/// nobody tried them, and compilers have bugs.

#include <string>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "runtime/generated_kernel.h"

namespace antegrad::compiler {

/// Compares the kernel of the generated node `node` of `lowered` with `alone`, the graph of the
/// nodes that it replaces, on tensors of the graph's sizes and strides. They hold normal numbers,
/// infinities, NaNs, zeros of both signs and denormal numbers. Returns the difference, empty if
/// there is none, or why they could not be compared. Draws from no generator.
std::string difference_from_library(const Graph& lowered, const Node& node, const Graph& alone,
                                    const ops::AttrTables& tables,
                                    const runtime::GeneratedKernel& kernel);

}  // namespace antegrad::compiler
