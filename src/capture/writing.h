#pragma once

/// \file
/// Operators that write arguments and that libtorch's functionalisation does not know: custom ones,
/// and the batch normalisations that hide it from their schema.
///
/// They get a Functionalize kernel of ours, which records the operator's functional twin and puts
/// the new values into the wrappers. Everything above it (autograd, version counters, kernels that
/// the operator's author registered) runs as in eager.

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/op_table.h"

namespace antegrad::capture {

/// Gives the operator its kernel.
void register_writing(const c10::OperatorHandle& op);

/// Does so for all operators that need it and that are registered now, once a process: an autograd
/// kernel may call them where capture does not see it coming. Later ones are found when a capture
/// meets them.
void register_writing_operators();

/// The stand-ins inside the wrappers of an argument, pending writes applied; other values as they
/// are.
c10::IValue unwrapped(const c10::IValue& value);

/// Records a composite operator that has effects instead of taking it apart. Throws CaptureError
/// when it returns tensors: their derivatives would be lost.
void call_effect(const ops::OpEntry& entry, torch::jit::Stack* stack);

}  // namespace antegrad::capture
