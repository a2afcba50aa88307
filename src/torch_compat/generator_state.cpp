#include "torch_compat/generator_state.h"

#include <ATen/ops/empty.h>
#include <antegrad/error.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "torch_compat/stream_capture.h"

namespace antegrad::torch_compat {
namespace {

// A position in a CUDA graph, as a state: longer than the state of a CUDA generator, which has 16
// bytes.
struct Packed {
  CapturedDraws place;
  uint64_t mark = 0x6870617267616761;
};

at::Tensor pack(const CapturedDraws& place) {
  const Packed packed{place};
  auto state = at::empty({sizeof packed}, at::dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), &packed, sizeof packed);
  return state;
}

std::optional<CapturedDraws> unpack(const at::Tensor& state) {
  Packed packed;
  if (state.nbytes() != sizeof packed) return std::nullopt;
  const auto mark = packed.mark;
  std::memcpy(&packed, state.const_data_ptr(), sizeof packed);
  return packed.mark == mark ? std::optional(packed.place) : std::nullopt;
}

// Why the state does not fit the current position of the generator; empty if it does.
std::string mismatch(const std::optional<CapturedDraws>& now,
                     const std::optional<CapturedDraws>& then) {
  if (!now && !then) return {};
  if (!then) return "a forward that ran before the capture of the graph that the backward is in";
  if (!now) return "a forward that was captured into a CUDA graph, and a backward in none";
  if (now->capture != then->capture) return "a forward that was captured into another CUDA graph";
  return {};
}

// Takes the generator's lock.
void set(at::Generator& generator, const at::Tensor& state) {
  if (const auto place = unpack(state)) {
    go_to(generator, *place);
  } else {
    generator.set_state(state);
  }
}

}  // namespace

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  const auto place = captured_draws(generator);
  return place ? pack(*place) : generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  const auto found = mismatch(captured_draws(generator), unpack(state));
  if (!found.empty()) {
    throw BackwardError(
        ErrorText{"forward and backward captured into one CUDA graph, or into none, where the "
                  "backward draws the random numbers of the forward again",
                  found,
                  "capture both into one graph; or let no random operator run again: no checkpoint "
                  "around it, and ban_recompute_random on"});
  }
  set(generator, state);
}

void put_back(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  if (mismatch(captured_draws(generator), unpack(state)).empty()) set(generator, state);
}

bool same_state(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace antegrad::torch_compat
