#pragma once

/// \file
/// Operators that write arguments and are unknown to libtorch's functionalisation: custom ones, and
/// batch normalisations, whose schemas do not declare their writes.
///
/// antegrad registers a Functionalize kernel for these, which records the operator's functional
/// twin and puts the new values into the wrappers. All kernels above it (autograd, version
/// counters, kernels registered by the operator's author) run as in eager.

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/op_table.h"

namespace antegrad::capture {

/// Registers the kernel for an operator.
void register_writing(const c10::OperatorHandle& op);

/// Registers it for all operators that need it and exist now, once per process: an autograd kernel
/// may call them where capture cannot see it in advance. Operators registered later are handled
/// when a capture meets them.
void register_writing_operators();

/// The stand-ins in the wrappers of an argument, after pending writes; other values unchanged.
c10::IValue unwrapped(const c10::IValue& value);

/// Records a composite operator with effects instead of decomposing it. Throws CaptureError if it
/// returns tensors, since their derivatives would be lost.
void call_effect(const ops::OpEntry& entry, torch::jit::Stack* stack);

}  // namespace antegrad::capture
