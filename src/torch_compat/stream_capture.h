#pragma once

/// \file
/// Random draws inside of a CUDA graph.
///
/// While a stream is being captured, libtorch's CUDA generators count their draws from the start
/// of the graph. Each replay of the graph adds this count to the generator's position at that
/// time. So a position in the draws of one graph is a number that is valid for all its replays.
/// The result of get_state() is not such a position: some versions of libtorch refuse the call
/// during capture, others return a number in the same form.
///
/// Without CUDA in libtorch nothing is ever captured: stream_capture_without_cuda.cpp.

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace antegrad::torch_compat {

/// A position in the draws of one generator in one graph.
struct CapturedDraws {
  uint64_t capture = 0;  ///< number of the capture, which CUDA uses once per process
  uint64_t drawn = 0;    ///< in libtorch's units, from the start of the graph
};

/// The position of the generator in the graph into which the current stream of its device is
/// captured. Nothing for a generator of another kind, or if no stream is captured. Throws what a
/// draw would throw, for a generator that the graph does not know. The caller holds the
/// generator's lock.
std::optional<CapturedDraws> captured_draws(const at::Generator& generator);

/// Sets the generator to that position. Only in the same capture. The caller holds the generator's
/// lock.
void go_to(const at::Generator& generator, const CapturedDraws& place);

/// Whether the current stream of the device, or of the generator's device, is being captured.
bool in_stream_capture(c10::Device device);
inline bool in_stream_capture(const at::Generator& generator) {
  return in_stream_capture(generator.device());
}

}  // namespace antegrad::torch_compat
