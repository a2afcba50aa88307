#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <antegrad/error.h>
#include <antegrad/saved_tensors.h>

#include <limits>
#include <optional>
#include <tuple>

namespace antegrad::compress {
namespace {

// The packed tensor, its scale if any, and the dtype to restore.
using Packed = std::tuple<at::Tensor, std::optional<at::Tensor>, at::ScalarType>;

// The largest int8 magnitude used, so that the range is symmetric.
constexpr double kLimit = 127;

Packed as_it_is(const at::Tensor& x) { return {x, std::nullopt, x.scalar_type()}; }

at::ScalarType scaled_in(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Whether compression pays off: the tensor is floating point, and its elements at `bytes` each with
// `scales` scales take fewer bytes.
bool shrinks(const at::Tensor& x, int64_t bytes, int64_t scales) {
  if (!x.is_floating_point() || x.dim() == 0) return false;
  const auto scale_bytes = static_cast<int64_t>(c10::elementSize(scaled_in(x.scalar_type())));
  return bytes * x.numel() + scales * scale_bytes < x.element_size() * x.numel();
}

// The scale that maps the largest magnitude to `limit`, computed without a copy of the tensor. It
// is never 0 or subnormal: quotients exceed the limit only by rounding, and conversions round such
// values to the limit.
at::Tensor scale_of(const at::Tensor& least, const at::Tensor& most, double limit) {
  const auto dtype = scaled_in(most.scalar_type());
  const auto smallest = dtype == at::kDouble ? std::numeric_limits<double>::min()
                                             : double{std::numeric_limits<float>::min()};
  return (at::maximum(most, least.neg()).to(dtype) / limit).clamp_min(smallest);
}

at::Tensor scaled(const at::Tensor& x, const at::Tensor& scale) {
  return x.to(scale.scalar_type()) / scale;
}

// Each kernel is a pass over memory, so the CPU path uses as few as possible. Conversions to float8
// are slow there, since they work element by element; float8 is therefore made from the bits of
// half, which has the same form.
at::Tensor half_of(const at::Tensor& x) {
  // Sign extension puts the sign into two bits. With four bits of exponent the second one drops
  // out.
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
  // The exponent bias is 7 in e4m3 and 15 in half.
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
