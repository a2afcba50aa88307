#pragma once

/// \file
/// The proof of a generated kernel: it is run beside the library's kernels that it replaces, on
/// invented data, and believed if all bits are equal or, at the level `close`, if it is as accurate
/// (lower/closeness.h). Recipes may be wrong for a machine on which
/// nobody tried them, and compilers have bugs.

#include <string>

#include "graph/graph.h"
#include "kernels/proofs.h"
#include "runtime/generated_kernel.h"

namespace antegrad::compiler {

/// Compares the kernel of the generated node `node` of `lowered` with the nodes that it replaces,
/// on tensors of the graph's sizes and strides. They hold normal numbers, infinities, NaNs, zeros
/// of both signs and denormal numbers. Draws from no generator. Then measures both. `in_float64`:
/// those nodes in float64, against which errors are measured; null: bits must be equal.
struct KernelProof {
  /// In bits or accuracy, or why they could not be compared; empty: none.
  std::string difference = {};
  /// In strides of results, which the graph does not know for dimensions of one element. It
  /// concerns this node, not the kernel.
  std::string other_strides = {};
  kernels::RunTimes times = {};  ///< the shortest of some runs, if the two are equal
};
KernelProof proof_of(const Graph& lowered, const Node& node, const runtime::GeneratedKernel& kernel,
                     const runtime::Program* in_float64 = nullptr);

}  // namespace antegrad::compiler
