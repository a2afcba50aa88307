#pragma once

/// \file
/// What capture and the runtime know about each dispatcher operator: the kinds of its arguments,
/// its treatment during capture, its shape function. One immortal entry per operator, made on first
/// use. Thread-safe.

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "shapes/shape_call.h"

namespace antegrad::ops {

/// The kind of a schema argument. Distinguishes types that IValue does not (an int from a dtype).
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

/// How capture treats the operator.
enum class Policy : uint8_t {
  record,           ///< becomes a node
  data_dependent,   ///< returns data to the host: refused, never run on zeros
  dynamic_outputs,  ///< its output sizes may depend on data: assumed, see answer.h
  hidden_mutation,  ///< writes running statistics in training without declaring it in the schema
  unknown_alias,    ///< returns views of its arguments that libtorch cannot functionalise: refused
};

struct OpEntry {
  explicit OpEntry(c10::OperatorHandle h) : handle(std::move(h)) {}

  c10::OperatorHandle handle;
  Op op;
  std::vector<ArgKind> args;
  std::vector<bool> optional;  ///< by argument: may be None (otherwise an undefined tensor)
  shapes::Function shape = nullptr;
  Policy policy = Policy::record;
  bool composite = false;    ///< decomposes into other operators above autograd
  bool meta_kernel = false;  ///< has a C++ kernel for meta tensors
  bool custom = false;       ///< not an operator of libtorch
  bool random = false;       ///< draws from a generator
  /// A custom operator without an autograd kernel: autograd would see the libtorch operators that
  /// its kernel happens to call.
  bool undeclared_derivative = false;
  int generator_arg = -1;  ///< position of the Generator argument, -1 if none
  int device_arg = -1;     ///< position of the `device` argument, -1 if none

  /// The functional twin of an operator that writes arguments and that libtorch cannot
  /// functionalise: a graph operator with the same arguments and the same handle. Its outputs are
  /// the newly created results, then the new value of each tensor in written_arguments(). Null if
  /// the operator needs none.
  std::shared_ptr<const OpEntry> twin;
  bool own_functionalize = false;  ///< antegrad functionalises it, with the twin
  bool is_twin = false;
  /// For twins and operators that have one: the positions of arguments that the schema declares as
  /// written; and by return, the written argument that it is, or -1 if it is newly created.
  std::vector<size_t> writes;
  std::vector<int> returned_arg;
};

/// The entry of a dispatcher operator.
const OpEntry& entry_of(const c10::OperatorHandle& handle);
/// Whether the operator needs antegrad's Functionalize kernel, by name and schema alone.
bool needs_functionalize(const c10::OperatorHandle& handle);

/// Positions of the arguments that a call of an operator with a twin writes. Includes lists, but
/// not None and undefined tensors.
std::vector<size_t> written_arguments(const OpEntry& entry, at::ArrayRef<c10::IValue> args);

/// Declares that an operator ("mylib::log") has effects. Returns false if it was already described
/// as one without.
bool declare_effects(const std::string& base_name);

/// The entry of a graph operator, twins included. Throws GraphError if this libtorch does not have
/// it.
const OpEntry& entry_of(Op op);

}  // namespace antegrad::ops
