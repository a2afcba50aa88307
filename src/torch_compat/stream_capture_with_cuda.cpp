#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <antegrad/error.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "torch_compat/stream_capture.h"

namespace antegrad::torch_compat {
namespace {

std::optional<uint64_t> present_capture(c10::Device device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
  return status == cudaStreamCaptureStatusActive ? std::optional<uint64_t>(id) : std::nullopt;
}

// The query of a kernel that draws nothing.
uint64_t drawn_so_far(const at::Generator& generator) {
  return at::check_generator<at::CUDAGeneratorImpl>(generator)
      ->philox_cuda_state(0)
      .offset_intragraph_;
}

}  // namespace

std::optional<CapturedDraws> captured_draws(const at::Generator& generator) {
  if (!generator.device().is_cuda()) return std::nullopt;
  const c10::DeviceGuard device(generator.device());
  const auto capture = present_capture(generator.device());
  if (!capture) return std::nullopt;
  return CapturedDraws{*capture, drawn_so_far(generator)};
}

void go_to(const at::Generator& generator, const CapturedDraws& place) {
  const c10::DeviceGuard device(generator.device());
  AG_CHECK(present_capture(generator.device()) == place.capture,
           "a place in the graph that is captured");
  at::check_generator<at::CUDAGeneratorImpl>(generator)->set_philox_offset_per_thread(place.drawn);
  AG_CHECK(drawn_so_far(generator) == place.drawn, "a generator that goes where it is told to");
}

bool in_stream_capture(c10::Device device) { return device.is_cuda() && present_capture(device); }

}  // namespace antegrad::torch_compat
