#pragma once

/// \file
/// What capture and the runtime know of each dispatcher operator: kinds of its arguments, what may be
/// done with it during capture, its shape function. One immortal entry an operator, made on first
/// use. Thread-safe.

#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>
#include <vector>

#include "graph/op.h"
#include "shapes/shape_call.h"

namespace antegrad::ops {

/// Kind of a schema argument; tells apart what IValue alone does not (an int from a dtype).
enum class ArgKind : uint8_t {
  tensor,
  tensors,
  optional_tensors,
  integer,
  floating,
  boolean,
  scalar,
  dtype,
  layout,
  memory_format,
  device,
  string,
  integers,
  floats,
  booleans,
  strings,
  scalars,
  generator,
  other,
};

/// What happens when capture meets the operator.
enum class Policy : uint8_t {
  record,           ///< becomes a node
  data_dependent,   ///< its answer or its shape depends on data: refused, never run on zeros
  hidden_mutation,  ///< writes arguments, in training, without saying so in its schema: refused
};

struct OpEntry {
  explicit OpEntry(c10::OperatorHandle h) : handle(std::move(h)) {}

  c10::OperatorHandle handle;
  Op op;
  std::vector<ArgKind> args;
  std::vector<bool> optional;  ///< by argument: may be None (an undefined tensor otherwise)
  shapes::Function shape = nullptr;
  Policy policy = Policy::record;
  bool composite = false;    ///< decomposes into other operators above autograd
  bool meta_kernel = false;  ///< has a C++ kernel for meta tensors
  bool random = false;       ///< draws from a generator
  int generator_arg = -1;    ///< position of the Generator argument, -1 when there is none
  int written_arg =
      -1;  ///< position of the only written argument if it is what is returned, else -1
  int device_arg = -1;  ///< position of the `device` argument, -1 when there is none
};

/// The entry of a dispatcher operator.
const OpEntry& entry_of(const c10::OperatorHandle& handle);
/// The entry of a graph operator. Throws GraphError when this libtorch has no operator of that name.
const OpEntry& entry_of(Op op);

}  // namespace antegrad::ops
