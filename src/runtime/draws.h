#pragma once

/// \file
/// Draws that can be repeated: a random operator of the forward tells the state that its generator
/// had, and the same operator in the backward draws from that state, to the bit, without touching
/// the user's generator.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>

#include "ops/op_table.h"

namespace antegrad::runtime {

/// Calls one random operator. Immutable; thread-safe where the operator takes a generator. The
/// others (on CUDA native_dropout and attention) draw from the default generator, whose state is
/// exchanged while they are repeated: no other thread should draw from it meanwhile
/// (docs/threads.md). So it is with all of them while a stream is captured into a CUDA graph.
class RepeatableDraw {
 public:
  RepeatableDraw(const ops::OpEntry& entry, at::Generator generator);

  /// Runs the operator on the stack as the user's generator would have it and returns the state
  /// with which it began. Exact beside other threads that draw from the same generator.
  at::Tensor record(torch::jit::Stack& stack) const;
  /// Runs the operator on the stack from that state. Throws BackwardError for a state of another
  /// CUDA graph, or of none in a graph.
  void repeat(torch::jit::Stack& stack, const at::Tensor& state) const;

 private:
  bool on_copies() const;
  void run(torch::jit::Stack& stack) const;
  void run_with(torch::jit::Stack& stack, const at::Generator& generator) const;

  const ops::OpEntry& entry_;
  at::Generator generator_;
  std::optional<c10::OperatorHandle> overload_;  // of the operator, the same but for a generator
  int32_t position_ =
      -1;  // of the generator argument, there or in the operator itself; -1: none has one
};

}  // namespace antegrad::runtime
