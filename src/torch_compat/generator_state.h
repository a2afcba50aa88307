#pragma once

/// \file
/// States of random generators, including during capture of a stream into a CUDA graph.
///
/// A state is a tensor of bytes on the CPU: the result of get_state() or, while the stream of the
/// generator's device is captured, the position in the draws of the graph (stream_capture.h). The
/// two cannot be confused: in a capture set_state() refuses a state from outside, and vice versa.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace antegrad::torch_compat {

/// The state of a generator. Takes its lock.
at::Tensor state_of(at::Generator generator);

/// Sets the state of a generator. Takes its lock. Throws BackwardError unless the state was taken
/// in the CUDA graph that is being captured, or outside of any while none is captured.
void set_state(at::Generator generator, const at::Tensor& state);

/// The same for cleaning up. Does nothing if set_state() would throw BackwardError, for a capture
/// that failed.
void put_back(at::Generator generator, const at::Tensor& state);

/// Compares two states of one generator, bit for bit.
bool same_state(const at::Tensor& a, const at::Tensor& b);

}  // namespace antegrad::torch_compat
