#pragma once

/// \file
/// Repeatable draws: a random operator of the forward records the state of its generator, and the
/// backward repeats the draw from that state, bit for bit, without changing the user's generator.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// Calls one random operator. Immutable. Thread-safe if the operator takes a generator. Other
/// operators (on CUDA native_dropout and attention) draw from the default generator, whose state is
/// exchanged while they are repeated: no other thread may draw from it meanwhile (docs/threads.md).
/// The same holds for all operators while a stream is captured into a CUDA graph.
class RepeatableDraw {
 public:
  RepeatableDraw(const ops::OpEntry& entry, at::Generator generator);

  /// Runs the operator on the stack like a plain call, and returns the generator state before the
  /// draw. Exact even if other threads draw from the same generator.
  at::Tensor record(torch::jit::Stack& stack) const;
  /// Runs the operator on the stack from that state. Throws BackwardError inside a CUDA graph for a
  /// state from another graph, or from outside.
  void repeat(torch::jit::Stack& stack, const at::Tensor& state) const;

 private:
  bool on_copies() const;
  void run(torch::jit::Stack& stack) const;
  void run_with(torch::jit::Stack& stack, const at::Generator& generator) const;

  const ops::OpEntry& entry_;
  at::Generator generator_;
  std::optional<c10::OperatorHandle> overload_;  // the overload of the operator with a generator
  int32_t position_ =
      -1;  // position of the generator argument in it or in the operator itself; -1: none
};

}  // namespace antegrad::runtime
