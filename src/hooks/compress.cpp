#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>

#include <limits>
#include <optional>
#include <tuple>

namespace antegrad::compress {
namespace {

// What is saved, a scale where there is one, and the dtype to come back to.
using Packed = std::tuple<at::Tensor, std::optional<at::Tensor>, at::ScalarType>;

// Of int8, as many on both sides of 0.
constexpr double kLimit = 127;

Packed as_it_is(const at::Tensor& x) { return {x, std::nullopt, x.scalar_type()}; }

at::ScalarType scaled_in(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Worth it: floating point, and fewer bytes with so many elements of `bytes` each and so many
// scales.
bool shrinks(const at::Tensor& x, int64_t bytes, int64_t scales) {
  if (!x.is_floating_point() || x.dim() == 0) return false;
  const auto scale_bytes = static_cast<int64_t>(c10::elementSize(scaled_in(x.scalar_type())));
  return bytes * x.numel() + scales * scale_bytes < x.element_size() * x.numel();
}

// What makes `limit` of the largest magnitude: found without a copy of the tensor. Never 0 nor
// subnormal: what is divided by it stays within the limit, but for rounding, and conversions round
// that to the limit.
at::Tensor scale_of(const at::Tensor& least, const at::Tensor& most, double limit) {
  const auto dtype = scaled_in(most.scalar_type());
  const auto smallest = dtype == at::kDouble ? std::numeric_limits<double>::min()
                                             : double{std::numeric_limits<float>::min()};
  return (at::maximum(most, least.neg()).to(dtype) / limit).clamp_min(smallest);
}

at::Tensor scaled(const at::Tensor& x, const at::Tensor& scale) {
  return x.to(scale.scalar_type()) / scale;
}

// Each kernel is a pass over memory, so that the fewest count on the CPU; and what it converts one
// by one is slow: float8 is made of the bits of half there, which have the same form.
at::Tensor half_of(const at::Tensor& x) {
  // Sign-extended: for four bits of exponent the sign is in two bits then, of which the second
  // goes.
  const auto bits = x.view(at::kChar).to(at::kShort);
  const auto shifted = x.scalar_type() == at::kFloat8_e5m2
                           ? bits.bitwise_left_shift(8)
                           : bits.bitwise_left_shift(7).bitwise_and(~(1 << 14));
  return shifted.view(at::kHalf);
}

at::Tensor scaled_back(const Packed& packed) {
  const auto& [x, scale, to] = packed;
  if (!scale) return x;
  const auto dtype = scale->scalar_type();
  if (!x.is_cpu() || x.scalar_type() == at::kChar) return (x.to(dtype) * *scale).to(to);
  // The exponent of e4m3 counts from 7, that of half from 15.
  const auto unit = x.scalar_type() == at::kFloat8_e5m2 ? *scale : *scale * 256;
  return (half_of(x).to(dtype) * unit).to(to);
}

Hooks fp8(at::ScalarType dtype, double limit, const char* name) {
  const auto pack = [dtype, limit](const at::Tensor& x) -> Packed {
    if (!shrinks(x, 1, 1)) return as_it_is(x);
    const auto scale = scale_of(x.amin(), x.amax(), limit);
    return {scaled(x, scale).to(dtype), scale, x.scalar_type()};
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
    if (x.dim() == 0 || x.numel() == 0 || !shrinks(x, 1, x.numel() / x.size(-1))) {
      return as_it_is(x);
    }
    const auto scale = scale_of(x.amin(-1, /*keepdim=*/true), x.amax(-1, /*keepdim=*/true), kLimit);
    return {scaled(x, scale).round().to(at::kChar), scale, x.scalar_type()};
  };
  static const auto* hooks =
      new Hooks(pack, scaled_back, HookOptions{true, "int8_rowwise", "int8_rowwise"});
  return *hooks;
}

const Hooks& bf16() {
  const auto pack = [](const at::Tensor& x) -> Packed {
    return {shrinks(x, 2, 0) ? x.to(at::kBFloat16) : x, std::nullopt, x.scalar_type()};
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
