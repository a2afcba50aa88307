#pragma once

/// \file
/// Operators that write an argument in place. libtorch's functionalisation gives the argument a new
/// value, which must have the metadata of the written tensor in eager.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "graph/ids.h"
#include "ops/op_table.h"
#include "torch_compat/scope.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::capture {

class Tracer;

/// Surrounds a call of an operator above autograd. Does nothing for an operator that does not
/// write.
class InPlace : torch_compat::Scope {
 public:
  /// Throws MutationError if elements of a written argument share memory: eager refuses most such
  /// writes, and functionalisation would get the others wrong.
  InPlace(Tracer& tracer, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args);
  ~InPlace();

  /// After the call: restores the strides of written tensors, and counts the write if only eager's
  /// kernel would.
  void finish() const;

  /// The operator that writes.
  Op op() const { return op_; }

  /// Whether one of the written tensors shows this memory in its current state, including earlier
  /// writes.
  bool writes_memory_of(ValueId value) const;

 private:
  struct Written {
    at::Tensor wrapper;
    torch_compat::TensorMetadata before;
    bool counts;  // whether the write is counted by eager's kernel, but by no kernel during capture
  };
  Tracer& tracer_;
  Op op_;
  const InPlace* outer_;  // an outer operator that writes
  std::vector<Written> written_;
};

}  // namespace antegrad::capture
