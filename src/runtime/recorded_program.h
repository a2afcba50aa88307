#pragma once

/// \file
/// A program that was recorded as a CUDA graph, with the memory that the graph reads and writes.
///
/// Inputs lie where they were, or are copied to memory of the graph's. What the backward alone will
/// read stays in the graph's memory, which is not written while somebody holds it. All other
/// results are copied to memory of their own. So no tensor changes under its holder.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "torch_compat/device_graph.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::runtime {

/// How the inputs and outputs of a program are to be treated.
struct RecordingRules {
  c10::Device device = at::kCUDA;
  std::vector<bool> copied = {};  ///< by input
  std::vector<bool> stays = {};   ///< by output: may stay in the memory of the graph
  /// What records; tests take another one.
  std::function<std::unique_ptr<torch_compat::DeviceGraph>(c10::Device,
                                                           const std::function<void()>&)>
      record = torch_compat::record_graph;
};

/// Not thread-safe.
class RecordedProgram {
 public:
  /// Runs the nodes of a program once, on one tensor per input.
  using Nodes = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;

  /// Records `nodes`. Tensors on other devices, and undefined ones, are given to them as they are.
  /// Throws what they throw, or c10::Error for what cannot be recorded.
  RecordedProgram(const std::vector<at::Tensor>& inputs, const RecordingRules& rules,
                  const Nodes& nodes);

  /// Whether it computes the program for these inputs, which may be undefined where they were.
  bool fits(const std::vector<at::Tensor>& inputs) const;
  /// Whether results of an earlier run in the graph's memory still live.
  bool is_held() const;
  /// Runs it on inputs that fit, on the current stream. One tensor per output. Throws c10::Error;
  /// without memory for results nothing has run.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;
  /// Of the device's memory that it keeps.
  int64_t bytes() const;
  /// Kernels, copies and fills that start together.
  int64_t size() const { return graph_->size(); }

 private:
  struct Input {
    bool checked = false;  // the device reads it
    bool copied = false;
    uint64_t address = 0;
    int64_t bytes = 0;
    torch_compat::TensorMetadata meta = {};
    at::Tensor memory = {};  // copied: bytes of its own, where the copy begins...
    int64_t begin = 0;       // ...after so many
  };
  // Memory of one or more outputs.
  struct Block {
    c10::Storage storage = {};  // stays: the memory; otherwise what new memory is like
    bool stays = true;
    // Otherwise: what is copied there, as integers, and to which bytes.
    at::Tensor source = {};
    at::ScalarType type = at::kByte;
    int64_t begin = 0, bytes = 0;
  };
  struct Output {
    enum class Kind : uint8_t { as_recorded, of_input, of_block, same } kind;
    int32_t index = -1;      // of the input, block or earlier output
    at::Tensor tensor = {};  // as_recorded
    torch_compat::TensorMetadata meta = {};
    int64_t shift = 0;  // of_input: bytes from the input's first element
  };

  at::Tensor place(const at::Tensor& input, const RecordingRules& rules, size_t index);
  Output output_of(const std::vector<at::Tensor>& outputs, size_t index,
                   const std::vector<at::Tensor>& inputs, c10::Device device);
  int32_t block_of(const at::Tensor& output);
  static void copy_from(Block& block, const c10::Storage& recorded, int64_t first, int64_t begin,
                        int64_t bytes);
  void finish_blocks(const std::vector<at::Tensor>& inputs);
  void copy_inputs(const std::vector<at::Tensor>& inputs) const;

  std::vector<Input> inputs_;
  std::vector<Block> blocks_;
  std::vector<Output> outputs_;
  std::unique_ptr<torch_compat::DeviceGraph> graph_;
};

/// The bytes from a strided tensor's first element to the end of its last.
int64_t bytes_within(const at::Tensor& tensor);

}  // namespace antegrad::runtime
