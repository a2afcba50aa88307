#pragma once

/// \file
/// Calls of generated kernels (lower/kernel_graph.h).

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/library.h"
#include "lower/cuda_printer.h"
#include "lower/group_kernel.h"
#include "runtime/cuda_code.h"
#include "runtime/kernel_misses.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

class Program;

/// Code for a GPU, and how many of its threads run it.
struct GpuCode {
  std::shared_ptr<const runtime::CudaFunction> function = nullptr;
  lower::CudaLaunch launch = {};
};

/// Code, and the arguments that its graph gives it.
struct GeneratedKernel {
  std::shared_ptr<const kernels::Library> library = nullptr;  ///< has `function`
  kernels::Function function = nullptr;
  GpuCode gpu = {};  ///< instead of both, for a graph's values on a GPU
  std::string name = {};
  std::vector<int64_t> numbers = {};
  std::vector<lower::GroupBuffer> buffers = {};
  std::vector<lower::GroupBound> bounds = {};
  int64_t threads = 0;   ///< for which it has eager's bits; 0: for any number
  int64_t elements = 0;  ///< of its parallel space
  lower::ThreadSplit split = lower::ThreadSplit::grain;
  /// The nodes that it replaces, from its inputs to its outputs.
  std::shared_ptr<const Program> nodes = nullptr;
  std::shared_ptr<KernelMisses> misses = nullptr;  ///< counts calls of the nodes; null: nobody does
};

/// A generated node of a graph, ready to be called. Any number of threads may call it at once.
class GeneratedCall {
 public:
  GeneratedCall(const Graph& graph, const Node& node, const GeneratedKernel& kernel);

  /// `inputs` as those of the node, which are consumed; returns one tensor per output of the node,
  /// in memory of its own, or in that of an input whose storage it has in the graph. Where an input
  /// lies in memory otherwise than the graph says, the nodes run one by one: strides of dimensions
  /// of one element show in those of results, and signs may be kept as a bit of the tensor. So they
  /// do where an index is out of bounds, which is eager's error, and where libtorch has another
  /// number of threads than a kernel was made for.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;

  const std::string& name() const { return kernel_.name; }
  size_t input_count() const { return inputs_.size(); }
  /// The memory that it keeps, without code; an estimate.
  int64_t bytes() const;
  /// Whether the two do the same.
  bool same_as(const GeneratedCall& other) const;

 private:
  // An input or an output of the node.
  struct Buffer {
    bool written;
    int32_t index;
    bool sums;  // GroupBuffer::sums
    friend bool operator==(const Buffer&, const Buffer&) = default;
  };

  // An input with indices, and between which numbers they lie if they are not `other`.
  struct Bound {
    int32_t input;
    int64_t begin;
    int64_t end;
    std::optional<int64_t> other;
    friend bool operator==(const Bound&, const Bound&) = default;
  };

  std::optional<KernelMiss> miss_of(const std::vector<at::Tensor>& inputs) const;
  bool is_within(const Bound& bound, const at::Tensor& found) const;
  std::vector<at::Tensor> memory_of_outputs(const std::vector<at::Tensor>& inputs) const;
  void launch(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) const;

  GeneratedKernel kernel_;
  std::vector<Buffer> buffers_;
  std::vector<Bound> bounds_;
  std::vector<torch_compat::TensorMetadata> inputs_;
  std::vector<torch_compat::TensorMetadata> outputs_;
  std::vector<int32_t> memory_of_;  // by output: the input in whose memory it lies, -1: its own
};

}  // namespace antegrad::runtime
