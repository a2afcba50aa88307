#pragma once

/// \file
/// What capture and the runtime know of each dispatcher operator: kinds of its arguments, what may
/// be done with it during capture, its shape function. One immortal entry an operator, made on
/// first use. Thread-safe.

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
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
  data_dependent,   ///< returns what depends on data to the host: refused, never run on zeros
  dynamic_outputs,  ///< sizes of its outputs may depend on data: assumed, see answer.h
  hidden_mutation,  ///< writes running statistics, in training, without saying so in its schema
  unknown_alias,    ///< returns views of its arguments that libtorch cannot functionalise: refused
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
  bool custom = false;       ///< not of libtorch itself
  bool random = false;       ///< draws from a generator
  /// A custom operator that leaves autograd to chance: without a kernel for it, autograd sees
  /// whatever libtorch operators its kernel happens to use.
  bool undeclared_derivative = false;
  int generator_arg = -1;  ///< position of the Generator argument, -1 when there is none
  int device_arg = -1;     ///< position of the `device` argument, -1 when there is none

  /// The functional twin of an operator that writes arguments and that libtorch cannot
  /// functionalise: a graph operator with the same arguments and the same handle. Its outputs are
  /// what the operator newly makes, then the new value of each tensor that written_arguments()
  /// names. Null when the operator needs none.
  std::shared_ptr<const OpEntry> twin;
  bool own_functionalize = false;  ///< libtorch cannot functionalise it: ours does, with the twin
  bool is_twin = false;
  /// Of twins and of operators that have one: positions of the arguments that the schema says are
  /// written; and by return the written argument that it is, -1 where it is newly made.
  std::vector<size_t> writes;
  std::vector<int> returned_arg;
};

/// The entry of a dispatcher operator.
const OpEntry& entry_of(const c10::OperatorHandle& handle);
/// Whether the operator needs a Functionalize kernel of ours, from name and schema alone.
bool needs_functionalize(const c10::OperatorHandle& handle);

/// Positions of the arguments that a call of an operator with a twin writes, lists included, None
/// and undefined ones not.
std::vector<size_t> written_arguments(const OpEntry& entry, at::ArrayRef<c10::IValue> args);

/// Declares that an operator ("mylib::log") has effects. False when it was described as one without
/// before.
bool declare_effects(const std::string& base_name);

/// The entry of a graph operator, twins included. Throws GraphError when this libtorch has no
/// operator of that name.
const OpEntry& entry_of(Op op);

}  // namespace antegrad::ops
