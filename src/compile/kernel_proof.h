#pragma once

/// \file
/// The proof of a generated kernel: it is run beside the library's kernels that it replaces, on
/// invented data, and believed if all bits are equal or, at the level `close`, if it is as accurate
/// (lower/closeness.h). Recipes may be wrong for a machine on which
/// nobody tried them, and compilers have bugs.

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "compile/invented_data.h"
#include "graph/graph.h"
#include "kernels/proofs.h"
#include "runtime/generated_kernel.h"

namespace antegrad::compiler {

/// What comparing a kernel with the nodes that it replaces found; both empty: it is proven.
struct KernelProof {
  /// In bits or accuracy, or why they could not be compared.
  std::string difference = {};
  /// In strides of results, which the graph does not know for dimensions of one element. It
  /// concerns this node, not the kernel.
  std::string other_strides = {};
  bool failed = false;  ///< they could not be compared
};

/// The kernel of the generated node `node` of `lowered`, beside the nodes that it replaces, on
/// tensors of the graph's sizes and strides. Draws from no generator. All of them must outlive it.
/// `in_place`: the same graph after reinplace(). `elements`: the size of the kernel's space.
class KernelTrial {
 public:
  KernelTrial(const Graph& lowered, const Graph& in_place, const Node& node,
              const runtime::GeneratedKernel& kernel, int64_t elements, InventedData& data);

  /// On normal numbers, infinities, NaNs, zeros of both signs and denormal numbers. `in_float64`:
  /// the nodes in float64, against which errors are measured; null: bits must be equal.
  KernelProof compare(const runtime::Program* in_float64) const;

  /// Whether results lie in memory of inputs when the program runs.
  bool is_in_place() const { return !call_.same_as(as_run_); }

  /// The shortest of some runs as in the program, on normal numbers: denormal ones are slow, and
  /// rare where programs train. Nothing if one of the two fails.
  std::optional<kernels::RunTimes> measure() const;

 private:
  KernelProof compare_all(const runtime::Program* in_float64) const;
  std::vector<at::Tensor> invented_inputs(bool special) const;

  const Graph& lowered_;
  const Node& node_;
  const runtime::GeneratedKernel& kernel_;
  const int64_t elements_;
  InventedData& data_;
  const runtime::GeneratedCall call_;  // with results in memory of their own
  const runtime::GeneratedCall as_run_;
};

}  // namespace antegrad::compiler
