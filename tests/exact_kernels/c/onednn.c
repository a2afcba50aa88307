// oneDNN's gelu (jit_uni_eltwise_injector), which ATen runs for contiguous tensors.
// Every lane takes this path. oneDNN looks at the CPU, not at ATen's capability.

// Multiplies, then adds: two roundings before the floor.
#define AG_DNN_EXP(T)                                                                   \
  FN T dnn_exp_##T(T x) {                                                               \
    const T low = splat_##T(-87.3365478515625f), one = splat_##T(1.f);                  \
    const T y = max_x86_##T(min_x86_##T(x, splat_##T(88.72283935546875f)), low);        \
    const T n = floor_##T(y * splat_##T(1.44269502162933349609375f) + splat_##T(0.5f)); \
    const T r = fma_##T(-n, splat_##T(0.693147182464599609375f), y);                    \
    const T scale = select_##T(x < low, splat_##T(0.f), dnn_power_of_two_##T(n - one)); \
    T p = fma_##T(splat_##T(0.00828929059f), r, splat_##T(0.0418978221f));              \
    p = fma_##T(p, r, splat_##T(0.166676521f));                                         \
    p = fma_##T(p, r, splat_##T(0.499991506f));                                         \
    p = fma_##T(p, r, splat_##T(0.999999701f));                                         \
    return fma_##T(p, r, one) * scale * splat_##T(2.f);                                 \
  }
FN float dnn_power_of_two_f32(float n) { return n != n ? n : bits_f32((u32)((int)n + 127) << 23); }
#define AG_POWER_OF_TWO(T, I) \
  FN T dnn_power_of_two_##T(T n) { return (T)((__builtin_convertvector(n, I) + 127) << 23); }
AG_POWER_OF_TWO(f32x8, i32x8)
AG_POWER_OF_TWO(f32x16, i32x16)

// The series of erf that follows exp(-x*x) in both directions.
#define AG_DNN_ERF(T)                                                                          \
  AG_DNN_EXP(T)                                                                                \
  FN T dnn_erf_##T(T x, T exponential) {                                                       \
    const T one = splat_##T(1.f);                                                              \
    const T t = one / fma_##T(splat_##T(0.3275911f), abs_##T(x), one);                         \
    T r = fma_##T(splat_##T(1.061405429f), t, splat_##T(-1.453152027f));                       \
    r = fma_##T(r, t, splat_##T(1.421413741f));                                                \
    r = fma_##T(r, t, splat_##T(-0.284496736f));                                               \
    r = fma_##T(r, t, splat_##T(0.254829592f));                                                \
    const T y = fma_##T(-exponential * t, r, one);                                             \
    return copysign_##T(y, copysign_##T(splat_##T(1.f), x) * copysign_##T(splat_##T(1.f), y)); \
  }                                                                                            \
  FN T dnn_gelu_backward_factor_##T(T x) {                                                     \
    const T r = x * splat_##T(0.70710678f), e = dnn_exp_##T(-(r * r));                         \
    const T t = r * splat_##T(0x1.20dd74p-1f) * e;                                             \
    return fma_##T(dnn_erf_##T(r, e), splat_##T(0.5f), t + splat_##T(0.5f));                   \
  }
AG_DNN_ERF(f32)
AG_DNN_ERF(f32x8)
AG_DNN_ERF(f32x16)

#if AG_ONEDNN > 1
// AVX-512: 1 + erf by 25 polynomials in |x|, chosen by its exponent and two bits.
static const u32 ag_gelu_polynomials[6][32] = {
#include "../../../src/lower/gelu_polynomials.inc"
};
#define AG_DNN_GELU(T, U, I, N)                                                \
  FN T dnn_gelu_##T(T x) {                                                     \
    const T a = abs_##T(x);                                                    \
    I k = ((I)a + (int)0xc21fffffu) >> 21;                                     \
    k = (k & (k > 0)) | (1 & ~(k > 0));                                        \
    k = (k & (k < 24)) | (24 & ~(k < 24));                                     \
    const I saturated = a > splat_##T(0x1.62b9dcp2f);                          \
    k = (23 & saturated) | (k & ~saturated);                                   \
    T p = dnn_coefficient_##T(5, k);                                           \
    for (int d = 4; d >= 0; d--) p = fma_##T(p, a, dnn_coefficient_##T(d, k)); \
    const T y = (T)((I)p ^ ((I)x & (I)splat_##T(-0.f)));                       \
    return x * (y + splat_##T(1.f)) * splat_##T(0.5f);                         \
  }
FN f32x8 dnn_coefficient_f32x8(int d, i32x8 k) {
  f32x8 r;
  for (int i = 0; i < 8; i++) r[i] = bits_f32(ag_gelu_polynomials[d][k[i]]);
  return r;
}
FN f32x16 dnn_coefficient_f32x16(int d, i32x16 k) {
#ifdef __clang__
  f32x16 r;
  for (int i = 0; i < 16; i++) r[i] = bits_f32(ag_gelu_polynomials[d][k[i]]);
  return r;
#else
  const f32x16_unaligned* row = (const f32x16_unaligned*)ag_gelu_polynomials[d];
  return __builtin_shuffle((f32x16)row[0], (f32x16)row[1], k);
#endif
}
AG_DNN_GELU(f32x8, u32x8, i32x8, 8)
AG_DNN_GELU(f32x16, u32x16, i32x16, 16)
FN float dnn_gelu_f32(float x) { return dnn_gelu_f32x8(splat_f32x8(x))[0]; }
#else
#define AG_DNN_GELU(T)                                               \
  FN T dnn_gelu_##T(T x) {                                           \
    const T r = x * splat_##T(0.70710678f), h = x * splat_##T(0.5f); \
    return fma_##T(dnn_erf_##T(r, dnn_exp_##T(-(r * r))), h, h);     \
  }
AG_DNN_GELU(f32)
AG_DNN_GELU(f32x8)
AG_DNN_GELU(f32x16)
#endif

// oneDNN's bf16 result: AVX512_BF16 (AG_ONEDNN 3) turns denormals into zero.
#define AG_DNN_RND(T)                                                                          \
  FN T dnn_rnd_bf16_##T(T v) {                                                                 \
    const T zero = copysign_##T(splat_##T(0.f), v);                                            \
    const T kept = AG_ONEDNN > 2 ? select_##T(abs_##T(v) < splat_##T(0x1p-126f), zero, v) : v; \
    return rnd_bf16_##T(kept);                                                                 \
  }
AG_DNN_RND(f32)
AG_DNN_RND(f32x8)
AG_DNN_RND(f32x16)
