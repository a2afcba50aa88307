#pragma once

/// \file
/// Operators that write an argument in place: libtorch's functionalisation gives the argument a new
/// value, which must look as the written tensor does in eager.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "graph/ids.h"
#include "ops/op_table.h"
#include "torch_compat/tensor_metadata.h"

namespace antegrad::capture {

class Tracer;

/// Around a call of an operator above autograd; does nothing for one that writes nothing.
class InPlace {
 public:
  /// Throws MutationError when elements of a written argument share memory: eager refuses most such
  /// writes, and functionalisation would get the others wrong.
  InPlace(Tracer& tracer, const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args);
  ~InPlace();
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

  /// After the call: gives what was written the strides that it had, and counts the write where
  /// only eager's kernel does.
  void finish() const;

  /// Whether one of the written tensors shows this memory as it is now, with what was written to it
  /// so far.
  bool writes_memory_of(ValueId value) const;

 private:
  struct Written {
    at::Tensor wrapper;
    torch_compat::TensorMetadata before;
    bool counts;  // a write that eager's kernel counts, and no kernel of a capture
  };
  Tracer& tracer_;
  const InPlace* outer_;  // another operator that writes and is under way
  std::vector<Written> written_;
};

}  // namespace antegrad::capture
