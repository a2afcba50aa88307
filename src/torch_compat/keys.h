#pragma once

/// \file
/// The dispatch keys that antegrad uses, and how its fallback kernels are registered on them.
///
/// Three keys are active on a thread that captures:
///  - `lift_key` (above autograd): closure tensors are replaced by stand-ins before autograd sees
///    them;
///  - Functionalize (below autograd): libtorch removes mutation and tracks views;
///  - `record_key` (below Functionalize): the tracer records the operator.
/// Upstream reserves these keys for other systems (torchdistx, C++ fake tensors). So they are
/// registered only at the first capture, after checking that they are free. Their order relative
/// to Python differs between torch 2.11 and 2.13. Both are below Functionalize, which is all that
/// matters here.

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/DispatchKeySet.h>

namespace antegrad::torch_compat {

inline constexpr c10::DispatchKey lift_key = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKey record_key = c10::DispatchKey::Fake;

/// All keys that a capturing thread includes.
inline constexpr c10::DispatchKeySet capture_keys =
    c10::DispatchKeySet({lift_key, c10::DispatchKey::Functionalize, record_key});

/// Everything above the backends: what must be excluded while our own code calls kernels.
c10::DispatchKeySet keys_above_backends();

/// Key set of a stand-in for a tensor on `device`. Throws CaptureError for unsupported devices.
c10::DispatchKeySet stand_in_keys(c10::Device device);

using BoxedKernel = void (*)(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*);

/// Registers the two kernels on their keys, once per process; later calls do nothing. Thread-safe.
/// Throws CaptureError if another library occupies a key.
void register_fallbacks(BoxedKernel lift, BoxedKernel record);

/// Registers a Functionalize kernel for one operator, for the rest of the process. A second call
/// does nothing. Thread-safe.
void register_functionalize(const c10::OperatorHandle& op, BoxedKernel kernel);

/// Whether the operator has a foreign Functionalize kernel. Thread-safe.
bool functionalizes_itself(const c10::OperatorHandle& op);

}  // namespace antegrad::torch_compat
