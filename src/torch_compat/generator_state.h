#pragma once

/// \file
/// States of random generators, while a stream is captured into a CUDA graph as well.
///
/// A state is a tensor of bytes on the CPU: what get_state() returns or, while the stream of the generator's device
/// is captured, the place in the draws of the graph (stream_capture.h). The two cannot be taken for each other:
/// set_state() refuses a state of outside in a capture and the other way round.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace antegrad::torch_compat {

/// The state of a generator; takes its lock.
at::Tensor state_of(at::Generator generator);

/// Gives it that state; takes its lock. Throws BackwardError unless the state was taken in the CUDA graph that is
/// being captured, or outside of any and none is.
void set_state(at::Generator generator, const at::Tensor& state);

/// The same for cleaning up: does nothing where set_state() would throw BackwardError, for a capture that failed.
void put_back(at::Generator generator, const at::Tensor& state);

/// To the bit. Of one generator.
bool same_state(const at::Tensor& a, const at::Tensor& b);

}  // namespace antegrad::torch_compat
