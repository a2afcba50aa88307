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
    {0xa6f2cb94, 0x32827792, 0x3381cc0c, 0x34523d4a, 0x351ac44d, 0x35f36d88, 0x36ee8229, 0x37b8a3bb,
     0x3867a213, 0x3940033b, 0x3a2a5a1d, 0x3ae35863, 0x3b7828f2, 0x3c08b14b, 0x3c515ed3, 0xbb503236,
     0xbd8d8e5e, 0xbe8abcd9, 0xbf0c19a2, 0xbeccb328, 0x3e176ced, 0x3f470d99, 0x3f7abb28, 0x3f800000,
     0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0},
    {0x3f4c422a, 0x3f4c421f, 0x3f4c4207, 0x3f4c41cb, 0x3f4c413b, 0x3f4c3fad, 0x3f4c3a2f, 0x3f4c2d40,
     0x3f4c146a, 0x3f4bc341, 0x3f4ad08c, 0x3f48f8cf, 0x3f45fac7, 0x3f404e07, 0x3f3b980f, 0x3f48dff3,
     0x3f78b21b, 0x3fbb0704, 0x40019c32, 0x3fe536d6, 0x3f81331e, 0x3e6c8684, 0x3c98f936, 0x0,
     0x3f800000, 0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0},
    {0xb62173f4, 0x3735e4cf, 0x37f2ff89, 0x388c23be, 0x3917535c, 0x39ab2ab0, 0x3a60fadb, 0x3af9b960,
     0x3b6e5491, 0x3c0a4ec5, 0x3ca5aa8c, 0x3d2138d9, 0x3d8737d4, 0x3ddfb660, 0x3e0f27ab, 0x3d94004b,
     0xbe0efdeb, 0xbf1d96c3, 0xbf89db58, 0xbf6d9897, 0xbef69fb8, 0xbdc4f8a8, 0xbbde6422, 0x0,
     0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0},
    {0xbe081a19, 0xbe084570, 0xbe08639b, 0xbe089837, 0xbe08f409, 0xbe09ab95, 0xbe0b66d0, 0xbe0e400a,
     0xbe124df8, 0xbe1bde02, 0xbe2f19c9, 0xbe4931bf, 0xbe685fbc, 0xbe89c95f, 0xbe96cbca, 0xbe8044aa,
     0xbe0550f2, 0x3dcfd6a1, 0x3e94c826, 0x3e79345f, 0x3decec91, 0x3ca46568, 0x3aa1e00a, 0x0,
     0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0},
    {0xba3d61db, 0x39f097a3, 0x3a5845dc, 0x3ab1fa35, 0x3b0cefb8, 0x3b653ab6, 0x3bcae527, 0x3c221712,
     0x3c6c5840, 0x3cc0a703, 0x3d1dcc19, 0x3d63656d, 0x3d955907, 0x3dbf9910, 0x3dd53f69, 0x3db7dcef,
     0x3d639ebe, 0xba6ede48, 0xbd22be69, 0xbd041cf1, 0xbc64f5ab, 0xbb097a32, 0xb8ebf380, 0x0,
     0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0},
    {0x3cb7d80c, 0x3c9b6050, 0x3c978d11, 0x3c92e850, 0x3c8d058b, 0x3c848454, 0x3c6cd623, 0x3c4c824b,
     0x3c2a7935, 0x3be0b390, 0x3b0651ac, 0xbb232f53, 0xbbd42fa0, 0xbc2c5366, 0xbc492c9e, 0xbc2a7aa6,
     0xbbd55d04, 0xba823a76, 0x3b102aa8, 0x3ae25a7e, 0x3a31f792, 0x38b84375, 0x3689bb5a, 0x0,
     0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0,        0x0}};
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
