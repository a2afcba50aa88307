#pragma once

/// \file
/// Draws inside of a CUDA graph.
///
/// While a stream is being captured, libtorch's CUDA generators count what they draw from the start of the graph
/// on; each replay of the graph adds this to where the generator is by then. So a place in the draws of one graph
/// is a number that holds for all its replays. The state of a generator, as get_state() tells it, is none: some
/// versions of libtorch refuse it then, others return such a number in the same form.
///
/// Without CUDA in libtorch nothing is ever captured: stream_capture_without_cuda.cpp.

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace antegrad::torch_compat {

/// A place in the draws of one generator in one graph.
struct CapturedDraws {
  uint64_t capture = 0;  ///< number of the capture, which CUDA gives once in a process
  uint64_t drawn = 0;    ///< in units of libtorch's, from the start of the graph on
};

/// Where the generator is in the graph that the current stream of its device is captured into; nothing for a
/// generator of another kind and where no stream is captured. Throws what a draw would throw, for a generator that
/// the graph does not know. The caller holds the generator's lock.
std::optional<CapturedDraws> captured_draws(const at::Generator& generator);

/// Lets the generator go on there. Only in the capture that the place is of; the caller holds the generator's
/// lock.
void go_to(const at::Generator& generator, const CapturedDraws& place);

/// Whether the current stream of the device, or of the generator's device, is being captured.
bool in_stream_capture(c10::Device device);
bool in_stream_capture(const at::Generator& generator);

}  // namespace antegrad::torch_compat
