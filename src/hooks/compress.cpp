#include <ATen/core/Tensor.h>
#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>

#include <optional>
#include <tuple>

namespace antegrad::compress {
namespace {

// What is saved, a scale where there is one, and the dtype to come back to.
using Packed = std::tuple<at::Tensor, std::optional<at::Tensor>, at::ScalarType>;

// Of int8, as many on both sides of 0.
constexpr double kLimit = 127;

// Worth it: floating point, and more bytes than it would take afterwards.
bool shrinks(const at::Tensor& x, int64_t bytes_after) {
  return x.is_floating_point() && x.dim() > 0 && x.element_size() > bytes_after;
}

// The largest magnitude, so that dividing by it never divides by 0.
at::Tensor scale_of(const at::Tensor& largest, double limit) {
  return (largest.to(at::kFloat) / limit).clamp_min(1e-30);
}

at::Tensor scaled_back(const Packed& packed) {
  const auto& [x, scale, to] = packed;
  return scale ? (x.to(at::kFloat) * *scale).to(to) : x;
}

Hooks fp8(at::ScalarType dtype, double limit, const char* name) {
  const auto pack = [dtype, limit](const at::Tensor& x) -> Packed {
    if (!shrinks(x, 1) || x.numel() == 0) return {x, std::nullopt, x.scalar_type()};
    const auto scale = scale_of(x.abs().amax(), limit);
    return {(x.to(at::kFloat) / scale).clamp(-limit, limit).to(dtype), scale, x.scalar_type()};
  };
  return {pack, scaled_back, HookOptions{true, name, name}};
}

}  // namespace

const Hooks& fp8_e4m3() {
  static const auto* hooks = new Hooks(fp8(at::kFloat8_e4m3fn, 448, "fp8_e4m3"));
  return *hooks;
}

const Hooks& fp8_e5m2() {
  static const auto* hooks = new Hooks(fp8(at::kFloat8_e5m2, 57344, "fp8_e5m2"));
  return *hooks;
}

const Hooks& int8_rowwise() {
  const auto pack = [](const at::Tensor& x) -> Packed {
    if (!shrinks(x, 1) || x.numel() == 0) return {x, std::nullopt, x.scalar_type()};
    const auto scale = scale_of(x.abs().amax(-1, /*keepdim=*/true), kLimit);
    return {(x.to(at::kFloat) / scale).round().clamp(-kLimit, kLimit).to(at::kChar), scale,
            x.scalar_type()};
  };
  static const auto* hooks =
      new Hooks(pack, scaled_back, HookOptions{true, "int8_rowwise", "int8_rowwise"});
  return *hooks;
}

const Hooks& bf16() {
  const auto pack = [](const at::Tensor& x) -> Packed {
    return {shrinks(x, 2) ? x.to(at::kBFloat16) : x, std::nullopt, x.scalar_type()};
  };
  const auto unpack = [](const Packed& packed) {
    return std::get<0>(packed).to(std::get<at::ScalarType>(packed));
  };
  static const auto* hooks = new Hooks(pack, unpack, HookOptions{true, "bf16", "bf16"});
  return *hooks;
}

const Hooks& hooks_of(Compressor compressor) {
  switch (compressor) {
    case Compressor::bf16: return bf16();
    case Compressor::fp8_e4m3: return fp8_e4m3();
    case Compressor::fp8_e5m2: return fp8_e5m2();
    case Compressor::int8_rowwise: return int8_rowwise();
    case Compressor::offload_to_host: {
      static const auto* hooks = new Hooks(offload_to_host());
      return *hooks;
    }
  }
  AG_CHECK(false, "no such compressor");
}

}  // namespace antegrad::compress
