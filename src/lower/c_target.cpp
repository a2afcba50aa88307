#include "lower/c_target.h"

#include <algorithm>
#include <iterator>

namespace antegrad::lower {
namespace {

using enum Capability;

constexpr std::string_view kFence = "__builtin_ia32_sfence();";

constexpr CTarget kTargets[] = {
    {.capability = baseline,
     .name = "default",
     .vector_bytes = 16,
     .formulas = baseline,
     .fuses = false,
     .sleef = false,
     .selects_f64 = false,
     .fence = kFence},
    {.capability = avx2, .name = "avx2", .vector_bytes = 32, .formulas = avx2, .fence = kFence},
    {.capability = avx512,
     .name = "avx512",
     .vector_bytes = 64,
     .formulas = avx512,
     .fence = kFence},
    {.capability = neon,
     .name = "neon",
     .vector_bytes = 16,
     .formulas = avx2,
     .exact = false,
     .sleef = false,
     .mkl = false,
     .truncates_to_least = false},
    {.capability = cuda,
     .name = "cuda",
     .vector_bytes = 4,
     .formulas = avx2,
     .sleef = false,
     .in_line = false,
     .mkl = false},
};

struct Builtin {
  Capability needs;
  Op op;
  DType type;
  int32_t bytes;
  std::string_view text;
};

// GCC makes the instructions of NEON from loops over lanes.
constexpr Builtin kBuiltins[] = {
    {baseline, Op::cast, DType::i32, 16, "__builtin_ia32_cvttps2dq(a)"},
    {avx2, Op::cast, DType::i32, 32, "__builtin_ia32_cvttps2dq256(a)"},
    {avx512, Op::cast, DType::i32, 64,
     "__builtin_ia32_cvttps2dq512_mask(a, (i32x16){0}, (u16)-1, 4)"},
    {baseline, Op::min, DType::f32, 16, "__builtin_ia32_minps(a, b)"},
    {baseline, Op::max, DType::f32, 16, "__builtin_ia32_maxps(a, b)"},
    {baseline, Op::min, DType::f64, 16, "__builtin_ia32_minpd(a, b)"},
    {baseline, Op::max, DType::f64, 16, "__builtin_ia32_maxpd(a, b)"},
    {baseline, Op::sqrt, DType::f32, 16, "__builtin_ia32_sqrtps(a)"},
    {baseline, Op::sqrt, DType::f64, 16, "__builtin_ia32_sqrtpd(a)"},
    {avx2, Op::fma, DType::f32, 16, "__builtin_ia32_vfmaddps(a, b, c)"},
    {avx2, Op::fma, DType::f64, 16, "__builtin_ia32_vfmaddpd(a, b, c)"},
    {avx2, Op::fma, DType::f32, 32, "__builtin_ia32_vfmaddps256(a, b, c)"},
    {avx2, Op::fma, DType::f64, 32, "__builtin_ia32_vfmaddpd256(a, b, c)"},
    {avx2, Op::min, DType::f32, 32, "__builtin_ia32_minps256(a, b)"},
    {avx2, Op::max, DType::f32, 32, "__builtin_ia32_maxps256(a, b)"},
    {avx2, Op::min, DType::f64, 32, "__builtin_ia32_minpd256(a, b)"},
    {avx2, Op::max, DType::f64, 32, "__builtin_ia32_maxpd256(a, b)"},
    {avx2, Op::sqrt, DType::f32, 32, "__builtin_ia32_sqrtps256(a)"},
    {avx2, Op::sqrt, DType::f64, 32, "__builtin_ia32_sqrtpd256(a)"},
    {avx2, Op::round, DType::f32, 32, "__builtin_ia32_roundps256(a, 0)"},
    {avx2, Op::floor, DType::f32, 32, "__builtin_ia32_roundps256(a, 1)"},
    {avx2, Op::ceil, DType::f32, 32, "__builtin_ia32_roundps256(a, 2)"},
    {avx2, Op::trunc, DType::f32, 32, "__builtin_ia32_roundps256(a, 3)"},
    {avx2, Op::round, DType::f64, 32, "__builtin_ia32_roundpd256(a, 0)"},
    {avx2, Op::floor, DType::f64, 32, "__builtin_ia32_roundpd256(a, 1)"},
    {avx2, Op::ceil, DType::f64, 32, "__builtin_ia32_roundpd256(a, 2)"},
    {avx2, Op::trunc, DType::f64, 32, "__builtin_ia32_roundpd256(a, 3)"},
    {avx512, Op::fma, DType::f32, 64, "__builtin_ia32_vfmaddps512_mask(a, b, c, (u16)-1, 4)"},
    {avx512, Op::fma, DType::f64, 64, "__builtin_ia32_vfmaddpd512_mask(a, b, c, (u8)-1, 4)"},
    {avx512, Op::scale, DType::f32, 16, "__builtin_ia32_scalefps128_mask(a, b, a, (u8)-1)"},
    {avx512, Op::scale, DType::f64, 16, "__builtin_ia32_scalefpd128_mask(a, b, a, (u8)-1)"},
    {avx512, Op::scale, DType::f32, 32, "__builtin_ia32_scalefps256_mask(a, b, a, (u8)-1)"},
    {avx512, Op::scale, DType::f64, 32, "__builtin_ia32_scalefpd256_mask(a, b, a, (u8)-1)"},
    {avx512, Op::scale, DType::f32, 64, "__builtin_ia32_scalefps512_mask(a, b, a, (u16)-1, 4)"},
    {avx512, Op::scale, DType::f64, 64, "__builtin_ia32_scalefpd512_mask(a, b, a, (u8)-1, 4)"},
    {avx512, Op::min, DType::f32, 64, "__builtin_ia32_minps512_mask(a, b, a, (u16)-1, 4)"},
    {avx512, Op::max, DType::f32, 64, "__builtin_ia32_maxps512_mask(a, b, a, (u16)-1, 4)"},
    {avx512, Op::min, DType::f64, 64, "__builtin_ia32_minpd512_mask(a, b, a, (u8)-1, 4)"},
    {avx512, Op::max, DType::f64, 64, "__builtin_ia32_maxpd512_mask(a, b, a, (u8)-1, 4)"},
    {avx512, Op::sqrt, DType::f32, 64, "__builtin_ia32_sqrtps512_mask(a, a, (u16)-1, 4)"},
    {avx512, Op::sqrt, DType::f64, 64, "__builtin_ia32_sqrtpd512_mask(a, a, (u8)-1, 4)"},
    {avx512, Op::round, DType::f32, 64, "__builtin_ia32_rndscaleps_mask(a, 0, a, (u16)-1, 4)"},
    {avx512, Op::floor, DType::f32, 64, "__builtin_ia32_rndscaleps_mask(a, 1, a, (u16)-1, 4)"},
    {avx512, Op::ceil, DType::f32, 64, "__builtin_ia32_rndscaleps_mask(a, 2, a, (u16)-1, 4)"},
    {avx512, Op::trunc, DType::f32, 64, "__builtin_ia32_rndscaleps_mask(a, 3, a, (u16)-1, 4)"},
    {avx512, Op::round, DType::f64, 64, "__builtin_ia32_rndscalepd_mask(a, 0, a, (u8)-1, 4)"},
    {avx512, Op::floor, DType::f64, 64, "__builtin_ia32_rndscalepd_mask(a, 1, a, (u8)-1, 4)"},
    {avx512, Op::ceil, DType::f64, 64, "__builtin_ia32_rndscalepd_mask(a, 2, a, (u8)-1, 4)"},
    {avx512, Op::trunc, DType::f64, 64, "__builtin_ia32_rndscalepd_mask(a, 3, a, (u8)-1, 4)"},
};

}  // namespace

const CTarget& c_target(Capability capability) { return kTargets[static_cast<size_t>(capability)]; }

std::optional<Capability> capability_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &CTarget::name);
  if (found == std::end(kTargets)) return std::nullopt;
  return found->capability;
}

std::string_view builtin_of(const CTarget& target, Op op, DType type, int32_t bytes) {
  for (const Builtin& row : kBuiltins) {
    if (row.op == op && row.type == type && row.bytes == bytes &&
        includes(target.capability, row.needs)) {
      return row.text;
    }
  }
  return {};
}

}  // namespace antegrad::lower
