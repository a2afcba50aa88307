#pragma once

/// \file
/// The two kernels through which all operators of a capturing thread pass, and a third one for
/// operators that libtorch cannot functionalise (capture/writing.h).

#include <ATen/core/dispatch/Dispatcher.h>

namespace antegrad::capture {

/// Above autograd: replaces real tensors by stand-ins, and handles by name operators that bypass
/// the rest.
void lift_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Below functionalisation: records the call.
void record_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack);

/// Registers all of them with the dispatcher, once.
void register_kernels();

}  // namespace antegrad::capture
