#pragma once

/// \file
/// The two kernels that a capturing thread's operators pass through, and a third for operators that
/// libtorch cannot functionalise (capture/writing.h).

#include <ATen/core/dispatch/Dispatcher.h>

namespace antegrad::capture {

/// Above autograd: exchanges real tensors for stand-ins, and handles by name what bypasses the
/// rest.
void lift_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Below functionalisation: records the call.
void record_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack);

/// Puts all of them where the dispatcher finds them; after the first time it does nothing.
void register_kernels();

}  // namespace antegrad::capture
