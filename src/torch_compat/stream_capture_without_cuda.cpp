#include <antegrad/error.h>

#include "torch_compat/stream_capture.h"

namespace antegrad::torch_compat {

std::optional<CapturedDraws> captured_draws(const at::Generator&) { return std::nullopt; }

void go_to(const at::Generator&, const CapturedDraws&) {
  throw InternalError("a place in a CUDA graph, without CUDA");
}

bool in_stream_capture(c10::Device) { return false; }

}  // namespace antegrad::torch_compat
