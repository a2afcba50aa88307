// Text in front of every generated kernel: vector types, arithmetic with explicit rounding, and the
// functions that ATen calls. It includes no header. Compile with
//   -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math
// and with
//   AG_CAPABILITY  ATen's capability, which decides bits: 0 default, 1 AVX2, 2 AVX-512.
//   AG_ONEDNN      what oneDNN generates code for on this CPU: 1 AVX2, 2 AVX-512.
// The target of the compiler (-mavx2 -mfma -mf16c, ...) decides speed alone.
//
// A name ends in the type that it computes in: f32, f64 (one element), f32x8, f32x16, f64x4, f64x8.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;
typedef float f32;
typedef double f64;

#define FN static inline __attribute__((always_inline, unused))
#define AG_BITS_f32 int
#define AG_BITS_f64 long

#define AG_TYPES(T, S, N)                                                              \
  typedef S T##x##N __attribute__((vector_size(sizeof(S) * N)));                       \
  typedef S T##x##N##_unaligned                                                        \
      __attribute__((vector_size(sizeof(S) * N), aligned(sizeof(S)), may_alias));
AG_TYPES(f32, float, 8)
AG_TYPES(f32, float, 16)
AG_TYPES(f64, double, 4)
AG_TYPES(f64, double, 8)
AG_TYPES(i32, int, 4)
AG_TYPES(i32, int, 8)
AG_TYPES(i32, int, 16)
AG_TYPES(u32, u32, 8)
AG_TYPES(u32, u32, 16)
AG_TYPES(i64, long, 4)
AG_TYPES(i64, long, 8)
AG_TYPES(u16, u16, 8)
AG_TYPES(u16, u16, 16)
AG_TYPES(u8, u8, 4)
AG_TYPES(u8, u8, 8)
AG_TYPES(u8, u8, 16)
typedef i32x8 f32x8_bits;
typedef i32x16 f32x16_bits;
typedef i64x4 f64x4_bits;
typedef i64x8 f64x8_bits;

// ---- what one instruction does --------------------------------------------------------------

#define AG_EACH(V, N, NAME, CALL)                                                      \
  FN V NAME##_##V(V a) {                                                               \
    V r;                                                                               \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i]);                                     \
    return r;                                                                          \
  }
#define AG_EACH2(V, N, NAME, CALL)                                                     \
  FN V NAME##_##V(V a, V b) {                                                          \
    V r;                                                                               \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i], b[i]);                               \
    return r;                                                                          \
  }
#define AG_EACH3(V, N, NAME, CALL)                                                     \
  FN V NAME##_##V(V a, V b, V c) {                                                     \
    V r;                                                                               \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i], b[i], c[i]);                         \
    return r;                                                                          \
  }
#define AG_LANES(V, N, F)                                                              \
  AG_EACH(V, N, sqrt, __builtin_sqrt##F)                                               \
  AG_EACH(V, N, floor, __builtin_floor##F)                                             \
  AG_EACH(V, N, ceil, __builtin_ceil##F)                                               \
  AG_EACH(V, N, trunc, __builtin_trunc##F)                                             \
  AG_EACH(V, N, round_even, __builtin_rint##F)

#define AG_SCALAR(T, F)                                                                \
  FN T sqrt_##T(T a) { return __builtin_sqrt##F(a); }                                  \
  FN T floor_##T(T a) { return __builtin_floor##F(a); }                                \
  FN T ceil_##T(T a) { return __builtin_ceil##F(a); }                                  \
  FN T trunc_##T(T a) { return __builtin_trunc##F(a); }                                \
  FN T round_even_##T(T a) { return __builtin_rint##F(a); }                            \
  FN T fma_##T(T a, T b, T c) { return __builtin_fma##F(a, b, c); }                    \
  FN T abs_##T(T a) { return __builtin_fabs##F(a); }                                   \
  FN T copysign_##T(T a, T b) { return __builtin_copysign##F(a, b); }                  \
  FN T splat_##T(T a) { return a; }                                                    \
  FN T select_##T(int c, T a, T b) { return c ? a : b; }                               \
  FN int either_##T(int a, int b) { return a | b; }                                    \
  FN int both_##T(int a, int b) { return a & b; }
AG_SCALAR(f32, f)
AG_SCALAR(f64, )

#if defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)
#define AG_ROUNDING(V, P, N, S)                                                        \
  FN V sqrt_##V(V a) { return __builtin_ia32_sqrt##S##256(a); }                        \
  FN V floor_##V(V a) { return __builtin_ia32_round##S##256(a, 9); }                   \
  FN V ceil_##V(V a) { return __builtin_ia32_round##S##256(a, 10); }                   \
  FN V trunc_##V(V a) { return __builtin_ia32_round##S##256(a, 11); }                  \
  FN V round_even_##V(V a) { return __builtin_ia32_round##S##256(a, 8); }              \
  FN V fma_##V(V a, V b, V c) { return __builtin_ia32_vfmadd##S##256(a, b, c); }
AG_ROUNDING(f32x8, f32, 8, ps)
AG_ROUNDING(f64x4, f64, 4, pd)
#else
AG_LANES(f32x8, 8, f)
AG_LANES(f64x4, 4, )
AG_EACH3(f32x8, 8, fma, __builtin_fmaf)
AG_EACH3(f64x4, 4, fma, __builtin_fma)
#endif

#if defined(__AVX512F__) && !defined(__clang__)
#define AG_ROUNDING512(V, M, S)                                                        \
  FN V sqrt_##V(V a) { return __builtin_ia32_sqrt##S##512_mask(a, a, (M)-1, 4); }      \
  FN V floor_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 9, a, (M)-1, 4); } \
  FN V ceil_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 10, a, (M)-1, 4); } \
  FN V trunc_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 11, a, (M)-1, 4); } \
  FN V round_even_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 8, a, (M)-1, 4); } \
  FN V fma_##V(V a, V b, V c) {                                                        \
    return __builtin_ia32_vfmadd##S##512_mask(a, b, c, (M)-1, 4);                      \
  }
AG_ROUNDING512(f32x16, u16, ps)
AG_ROUNDING512(f64x8, u8, pd)
#else
AG_LANES(f32x16, 16, f)
AG_LANES(f64x8, 8, )
AG_EACH3(f32x16, 16, fma, __builtin_fmaf)
AG_EACH3(f64x8, 8, fma, __builtin_fma)
#endif

// ---- what several instructions do, for each type ---------------------------------------------

#define AG_VECTOR(V, B, T, M)                                                          \
  FN V splat_##V(T c) { return c - (V){0}; } /* 0 + c would turn -0 into +0 */         \
  FN V select_##V(B c, V a, V b) { return (V)((c & (B)a) | (~c & (B)b)); }             \
  FN B either_##V(B a, B b) { return a | b; }                                          \
  FN B both_##V(B a, B b) { return a & b; }                                            \
  FN V abs_##V(V a) { return (V)((B)a & M); }                                          \
  FN V copysign_##V(V a, V b) { return (V)(((B)a & M) | ((B)b & ~M)); }
AG_VECTOR(f32x8, i32x8, float, 0x7fffffff)
AG_VECTOR(f32x16, i32x16, float, 0x7fffffff)
AG_VECTOR(f64x4, i64x4, double, 0x7fffffffffffffffL)
AG_VECTOR(f64x8, i64x8, double, 0x7fffffffffffffffL)

// muladd: vec::fmadd, and a*b + c where ATen's compiler contracts it. One rounding where the
// capability has the instruction, two by default.
// min_x86, max_x86: minps, maxps. The second operand where both are equal or one is NaN.
#if AG_CAPABILITY > 0
#define AG_MULADD(T, a, b, c) fma_##T(a, b, c)
#else
#define AG_MULADD(T, a, b, c) (a * b + c)
#endif
#define AG_ALL(T)                                                                      \
  FN T muladd_##T(T a, T b, T c) { return AG_MULADD(T, a, b, c); }                     \
  FN T min_x86_##T(T a, T b) { return select_##T(a < b, a, b); }                       \
  FN T max_x86_##T(T a, T b) { return select_##T(a > b, a, b); }                       \
  FN T minimum_##T(T a, T b) {                                                         \
    return select_##T((a != a) | (b != b), a + b, min_x86_##T(a, b));                  \
  }                                                                                    \
  FN T maximum_##T(T a, T b) {                                                         \
    return select_##T((a != a) | (b != b), a + b, max_x86_##T(a, b));                  \
  }                                                                                    \
  FN T recip_##T(T a) { return splat_##T(1) / a; }
AG_ALL(f32)
AG_ALL(f64)
AG_ALL(f32x8)
AG_ALL(f32x16)
AG_ALL(f64x4)
AG_ALL(f64x8)

// ---- elements in memory ------------------------------------------------------------------------

FN float bits_f32(u32 u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
FN u32 f32_bits(float f) { u32 u; __builtin_memcpy(&u, &f, 4); return u; }

// bfloat16: round to nearest even. A NaN becomes 0xffff in ATen's vectors, 0x7fc0 elsewhere.
FN u16 narrow_bf16_f32(float f) {
  const u32 u = f32_bits(f);
  return f != f ? 0x7fc0 : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
FN float widen_bf16_f32(u16 h) { return bits_f32((u32)h << 16); }

// float16: round to nearest even, denormals kept.
FN u16 narrow_f16_f32(float f) {
  u32 u = f32_bits(f);
  const u32 sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (u16)(sign | 0x7e00u | ((u >> 13) & 0x1ffu));
  if (u >= 0x47800000u) return (u16)(sign | 0x7c00u);
  if (u < 0x38800000u) return (u16)(sign | (f32_bits(bits_f32(u) + 0.5f) - 0x3f000000u));
  return (u16)(sign | ((u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13));
}
FN float widen_f16_f32(u16 h) {
  const u32 e = (u32)(h & 0x7fffu) << 13, quiet = h & 0x3ffu ? 0x00400000u : 0;
  const u32 u =
      (h & 0x7c00u) == 0x7c00u ? e | 0x7f800000u | quiet : f32_bits(bits_f32(e) * 0x1p112f);
  return bits_f32(u | (u32)(h & 0x8000u) << 16);
}

#define AG_HALVES(V, N, U, I)                                                          \
  FN u16x##N narrow_bf16_##V(V f) {                                                    \
    const U u = (U)f;                                                                  \
    const U r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;                                \
    const I number = f == f;                                                           \
    return __builtin_convertvector((U)((number & (I)r) | (~number & 0xffff)), u16x##N); \
  }                                                                                    \
  FN V widen_bf16_##V(u16x##N h) { return (V)(__builtin_convertvector(h, U) << 16); }
AG_HALVES(f32x8, 8, u32x8, i32x8)
AG_HALVES(f32x16, 16, u32x16, i32x16)

#define AG_HALF_LANES(V, N)                                                            \
  FN u16x##N narrow_f16_##V(V f) {                                                     \
    u16x##N r;                                                                         \
    for (int i = 0; i < N; i++) r[i] = narrow_f16_f32(f[i]);                           \
    return r;                                                                          \
  }                                                                                    \
  FN V widen_f16_##V(u16x##N h) {                                                      \
    V r;                                                                               \
    for (int i = 0; i < N; i++) r[i] = widen_f16_f32(h[i]);                            \
    return r;                                                                          \
  }
typedef short ag_s16x8 __attribute__((vector_size(16)));
typedef short ag_s16x16 __attribute__((vector_size(32)));
#if defined(__F16C__) && defined(__AVX__) && !defined(__clang__)
FN u16x8 narrow_f16_f32x8(f32x8 f) { return (u16x8)__builtin_ia32_vcvtps2ph256(f, 0); }
FN f32x8 widen_f16_f32x8(u16x8 h) { return __builtin_ia32_vcvtph2ps256((ag_s16x8)h); }
#else
AG_HALF_LANES(f32x8, 8)
#endif
#if defined(__AVX512F__) && !defined(__clang__)
FN u16x16 narrow_f16_f32x16(f32x16 f) {
  return (u16x16)__builtin_ia32_vcvtps2ph512_mask(f, 0, (ag_s16x16){0}, (u16)-1);
}
FN f32x16 widen_f16_f32x16(u16x16 h) {
  return __builtin_ia32_vcvtph2ps512_mask((ag_s16x16)h, (f32x16){0}, (u16)-1, 4);
}
#else
AG_HALF_LANES(f32x16, 16)
#endif

// load_E_T, store_E_T: an element type E in memory, computed with as T. rnd_E_T: rounds to E.
#define AG_MEMORY(T, H)                                                                \
  FN T load_f32_##T(const float *p) { return *(const H##_f32 *)p; }                    \
  FN void store_f32_##T(float *p, T v) { *(H##_f32 *)p = v; }                          \
  FN T rnd_f32_##T(T v) { return v; }                                                  \
  FN T load_bf16_##T(const u16 *p) { return widen_bf16_##T(*(const H##_u16 *)p); }     \
  FN void store_bf16_##T(u16 *p, T v) { *(H##_u16 *)p = narrow_bf16_##T(v); }          \
  FN T rnd_bf16_##T(T v) { return widen_bf16_##T(narrow_bf16_##T(v)); }                \
  FN T load_f16_##T(const u16 *p) { return widen_f16_##T(*(const H##_u16 *)p); }       \
  FN void store_f16_##T(u16 *p, T v) { *(H##_u16 *)p = narrow_f16_##T(v); }            \
  FN T rnd_f16_##T(T v) { return widen_f16_##T(narrow_f16_##T(v)); }
typedef float ag_one_f32 __attribute__((may_alias));
typedef u16 ag_one_u16 __attribute__((may_alias));
typedef f32x8_unaligned ag_eight_f32;
typedef u16x8_unaligned ag_eight_u16;
typedef f32x16_unaligned ag_sixteen_f32;
typedef u16x16_unaligned ag_sixteen_u16;
AG_MEMORY(f32, ag_one)
AG_MEMORY(f32x8, ag_eight)
AG_MEMORY(f32x16, ag_sixteen)
#define AG_MEMORY64(T, H)                                                              \
  FN T load_f64_##T(const double *p) { return *(const H *)p; }                         \
  FN void store_f64_##T(double *p, T v) { *(H *)p = v; }                               \
  FN T rnd_f64_##T(T v) { return v; }
typedef double ag_one_f64 __attribute__((may_alias));
AG_MEMORY64(f64, ag_one_f64)
AG_MEMORY64(f64x4, f64x4_unaligned)
AG_MEMORY64(f64x8, f64x8_unaligned)

// Conditions: one byte an element in memory, all bits of a lane in a vector.
FN int load_bool_f32(const u8 *p) { return *p != 0; }
FN int load_bool_f64(const u8 *p) { return *p != 0; }
FN void store_bool_f32(u8 *p, int c) { *p = c != 0; }
FN void store_bool_f64(u8 *p, int c) { *p = c != 0; }
#define AG_BOOL(V, B, N)                                                               \
  FN B load_bool_##V(const u8 *p) {                                                    \
    return __builtin_convertvector(*(const u8x##N##_unaligned *)p, B) != 0;            \
  }                                                                                    \
  FN void store_bool_##V(u8 *p, B c) {                                                 \
    *(u8x##N##_unaligned *)p = __builtin_convertvector(c & 1, u8x##N);                 \
  }
AG_BOOL(f32x8, i32x8, 8)
AG_BOOL(f32x16, i32x16, 16)
AG_BOOL(f64x4, i64x4, 4)
AG_BOOL(f64x8, i64x8, 8)

// ---- functions of libraries ----------------------------------------------------------------------
// libm_NAME: the C library's scalar function.
// vec_NAME: Vectorized<T>::NAME of ATen: Sleef with AVX2 and AVX-512, the C library by default.
// vml_NAME: MKL's vector function, the same bits for any length and alignment.

#define AG_LIBM(NAME)                                                                  \
  float NAME##f(float);                                                                \
  double NAME(double);                                                                 \
  FN float libm_##NAME##_f32(float x) { return NAME##f(x); }                           \
  FN double libm_##NAME##_f64(double x) { return NAME(x); }                            \
  AG_EACH(f32x8, 8, libm_##NAME, NAME##f)                                              \
  AG_EACH(f32x16, 16, libm_##NAME, NAME##f)                                            \
  AG_EACH(f64x4, 4, libm_##NAME, NAME)                                                 \
  AG_EACH(f64x8, 8, libm_##NAME, NAME)
#define AG_LIBM2(NAME)                                                                 \
  float NAME##f(float, float);                                                         \
  double NAME(double, double);                                                         \
  FN float libm_##NAME##_f32(float x, float y) { return NAME##f(x, y); }               \
  FN double libm_##NAME##_f64(double x, double y) { return NAME(x, y); }               \
  AG_EACH2(f32x8, 8, libm_##NAME, NAME##f)                                             \
  AG_EACH2(f32x16, 16, libm_##NAME, NAME##f)                                           \
  AG_EACH2(f64x4, 4, libm_##NAME, NAME)                                                \
  AG_EACH2(f64x8, 8, libm_##NAME, NAME)
AG_LIBM(exp)
AG_LIBM(exp2)
AG_LIBM(expm1)
AG_LIBM(log)
AG_LIBM(log2)
AG_LIBM(log10)
AG_LIBM(log1p)
AG_LIBM(sin)
AG_LIBM(cos)
AG_LIBM(tan)
AG_LIBM(sinh)
AG_LIBM(cosh)
AG_LIBM(tanh)
AG_LIBM(asin)
AG_LIBM(acos)
AG_LIBM(atan)
AG_LIBM(asinh)
AG_LIBM(acosh)
AG_LIBM(atanh)
AG_LIBM(erf)
AG_LIBM(erfc)
AG_LIBM2(pow)
AG_LIBM2(atan2)
AG_LIBM2(fmod)
AG_LIBM2(hypot)

#if AG_CAPABILITY > 0
#define AG_SLEEF_T(T, V, NAME, F)                                                      \
  V F(V);                                                                              \
  FN V vec_##NAME##_##V(V x) { return F(x); }
#define AG_SLEEF2_T(T, V, NAME, F)                                                     \
  V F(V, V);                                                                           \
  FN V vec_##NAME##_##V(V x, V y) { return F(x, y); }
#else
#define AG_SLEEF_T(T, V, NAME, F)                                                      \
  FN V vec_##NAME##_##V(V x) { return libm_##NAME##_##V(x); }
#define AG_SLEEF2_T(T, V, NAME, F)                                                     \
  FN V vec_##NAME##_##V(V x, V y) { return libm_##NAME##_##V(x, y); }
#endif
#define AG_SLEEF8(M, NAME, S, U)                                                       \
  M(f32, f32x8, NAME, Sleef_##S##f8_##U)                                               \
  M(f64, f64x4, NAME, Sleef_##S##d4_##U)
#define AG_SLEEF16(M, NAME, S, U)                                                      \
  M(f32, f32x16, NAME, Sleef_##S##f16_##U)                                             \
  M(f64, f64x8, NAME, Sleef_##S##d8_##U)
#ifdef __AVX512F__
#define AG_SLEEF(M, NAME, S, U) AG_SLEEF8(M, NAME, S, U) AG_SLEEF16(M, NAME, S, U)
#else
#define AG_SLEEF AG_SLEEF8
#endif
#define AG_VEC(NAME, U) AG_SLEEF(AG_SLEEF_T, NAME, NAME, U)
AG_VEC(exp, u10)
AG_VEC(exp2, u10)
AG_VEC(expm1, u10)
AG_VEC(log, u10)
AG_VEC(log2, u10)
AG_VEC(log10, u10)
AG_VEC(log1p, u10)
AG_VEC(sin, u35)
AG_VEC(cos, u35)
AG_VEC(tan, u10)
AG_VEC(sinh, u10)
AG_VEC(cosh, u10)
AG_VEC(tanh, u10)
AG_VEC(asin, u10)
AG_VEC(acos, u10)
AG_VEC(atan, u10)
AG_VEC(asinh, u10)
AG_VEC(acosh, u10)
AG_VEC(atanh, u10)
AG_VEC(erfc, u15)
AG_SLEEF(AG_SLEEF2_T, pow, pow, u10)
AG_SLEEF(AG_SLEEF2_T, atan2, atan2, u10)
AG_SLEEF(AG_SLEEF2_T, hypot, hypot, u05)

// Vectorized<float>::erf is Abramowitz and Stegun 7.1.26 over Sleef's exp, Vectorized<double>'s is
// Sleef's.
#if AG_CAPABILITY > 0
AG_SLEEF(AG_SLEEF_T, sleef_erf, erf, u10)
#define AG_ERF32(V)                                                                    \
  FN V vec_erf_##V(V x) {                                                              \
    const V a = abs_##V(x), one = splat_##V(1.f);                                      \
    const V t = one / fma_##V(splat_##V(0.3275911f), a, one);                          \
    V r = fma_##V(splat_##V(1.061405429f), t, splat_##V(-1.453152027f));               \
    r = fma_##V(r, t, splat_##V(1.421413741f));                                        \
    r = fma_##V(r, t, splat_##V(-0.284496736f));                                       \
    r = fma_##V(r, t, splat_##V(0.254829592f));                                        \
    const V y = fma_##V(-vec_exp_##V(-(x * x)) * t, r, one);                           \
    const V negative = (V)((V##_bits)x & (V##_bits)splat_##V(-0.f));                   \
    return (V)((V##_bits)y ^ (V##_bits)negative);                                      \
  }
#define AG_ERF64(V) FN V vec_erf_##V(V x) { return vec_sleef_erf_##V(x); }
#else
#define AG_ERF32(V) FN V vec_erf_##V(V x) { return libm_erf_##V(x); }
#define AG_ERF64(V) AG_ERF32(V)
#endif
AG_ERF32(f32x8)
AG_ERF64(f64x4)
#ifdef __AVX512F__
AG_ERF32(f32x16)
AG_ERF64(f64x8)
#endif

#define AG_VML_MODE 0x140102L /* high accuracy, no flush to zero, errors ignored */
#define AG_VML_T(T, S, N, NAME, F)                                                     \
  FN T vml_##NAME##_##T(T x) {                                                         \
    T r;                                                                               \
    F(N, (const S *)&x, (S *)&r, AG_VML_MODE);                                         \
    return r;                                                                          \
  }
#define AG_VML(NAME, F)                                                                \
  void vms##F(int, const float *, float *, long);                                      \
  void vmd##F(int, const double *, double *, long);                                    \
  AG_VML_T(f32, float, 1, NAME, vms##F)                                                \
  AG_VML_T(f32x8, float, 8, NAME, vms##F)                                              \
  AG_VML_T(f32x16, float, 16, NAME, vms##F)                                            \
  AG_VML_T(f64, double, 1, NAME, vmd##F)                                               \
  AG_VML_T(f64x4, double, 4, NAME, vmd##F)                                             \
  AG_VML_T(f64x8, double, 8, NAME, vmd##F)
AG_VML(exp, Exp)
AG_VML(log, Ln)
AG_VML(log2, Log2)
AG_VML(log10, Log10)
AG_VML(sin, Sin)
AG_VML(cos, Cos)
AG_VML(tan, Tan)
AG_VML(tanh, Tanh)
AG_VML(asin, Asin)
AG_VML(acos, Acos)
AG_VML(atan, Atan)
AG_VML(erf, Erf)
AG_VML(erfc, Erfc)
AG_VML(erfinv, ErfInv)
AG_VML(sqrt, Sqrt)
AG_VML(trunc, Trunc)

// ---- oneDNN's gelu (jit_uni_eltwise_injector), which ATen runs for contiguous tensors ----------------
// Every lane takes this path. oneDNN looks at the CPU, not at ATen's capability.

// Multiplies, then adds: two roundings before the floor.
#define AG_DNN_EXP(T)                                                            \
  FN T dnn_exp_##T(T x) {                                                              \
    const T low = splat_##T(-87.3365478515625f), one = splat_##T(1.f);                 \
    const T y = max_x86_##T(min_x86_##T(x, splat_##T(88.72283935546875f)), low);       \
    const T n = floor_##T(y * splat_##T(1.44269502162933349609375f) + splat_##T(0.5f)); \
    const T r = fma_##T(-n, splat_##T(0.693147182464599609375f), y);                   \
    const T scale = select_##T(x < low, splat_##T(0.f), dnn_power_of_two_##T(n - one)); \
    T p = fma_##T(splat_##T(0.00828929059f), r, splat_##T(0.0418978221f));             \
    p = fma_##T(p, r, splat_##T(0.166676521f));                                        \
    p = fma_##T(p, r, splat_##T(0.499991506f));                                        \
    p = fma_##T(p, r, splat_##T(0.999999701f));                                        \
    return fma_##T(p, r, one) * scale * splat_##T(2.f);                                \
  }
FN float dnn_power_of_two_f32(float n) { return n != n ? bits_f32(0x3f800000u) : bits_f32((u32)((int)n + 127) << 23); }
#define AG_POWER_OF_TWO(T, I)                                                          \
  FN T dnn_power_of_two_##T(T n) { return (T)((__builtin_convertvector(n, I) + 127) << 23); }
AG_POWER_OF_TWO(f32x8, i32x8)
AG_POWER_OF_TWO(f32x16, i32x16)

// The series of erf that follows exp(-x*x) in both directions.
#define AG_DNN_ERF(T)                                                                  \
  AG_DNN_EXP(T)                                                                      \
  FN T dnn_erf_##T(T x, T exponential) {                                               \
    const T one = splat_##T(1.f);                                                      \
    const T t = one / fma_##T(splat_##T(0.3275911f), abs_##T(x), one);                 \
    T r = fma_##T(splat_##T(1.061405429f), t, splat_##T(-1.453152027f));               \
    r = fma_##T(r, t, splat_##T(1.421413741f));                                        \
    r = fma_##T(r, t, splat_##T(-0.284496736f));                                       \
    r = fma_##T(r, t, splat_##T(0.254829592f));                                        \
    const T y = fma_##T(-exponential * t, r, one);                                     \
    return copysign_##T(y, copysign_##T(splat_##T(1.f), x) * copysign_##T(splat_##T(1.f), y)); \
  }                                                                                    \
  FN T dnn_gelu_backward_factor_##T(T x) {                                             \
    const T r = x * splat_##T(0.70710678f), e = dnn_exp_##T(-(r * r));                 \
    const T t = r * splat_##T(0x1.20dd74p-1f) * e;                                     \
    return fma_##T(dnn_erf_##T(r, e), splat_##T(0.5f), t + splat_##T(0.5f));           \
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
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
    {0x3f4c422a, 0x3f4c421f, 0x3f4c4207, 0x3f4c41cb, 0x3f4c413b, 0x3f4c3fad, 0x3f4c3a2f, 0x3f4c2d40,
     0x3f4c146a, 0x3f4bc341, 0x3f4ad08c, 0x3f48f8cf, 0x3f45fac7, 0x3f404e07, 0x3f3b980f, 0x3f48dff3,
     0x3f78b21b, 0x3fbb0704, 0x40019c32, 0x3fe536d6, 0x3f81331e, 0x3e6c8684, 0x3c98f936, 0x0,
     0x3f800000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
    {0xb62173f4, 0x3735e4cf, 0x37f2ff89, 0x388c23be, 0x3917535c, 0x39ab2ab0, 0x3a60fadb, 0x3af9b960,
     0x3b6e5491, 0x3c0a4ec5, 0x3ca5aa8c, 0x3d2138d9, 0x3d8737d4, 0x3ddfb660, 0x3e0f27ab, 0x3d94004b,
     0xbe0efdeb, 0xbf1d96c3, 0xbf89db58, 0xbf6d9897, 0xbef69fb8, 0xbdc4f8a8, 0xbbde6422, 0x0,
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
    {0xbe081a19, 0xbe084570, 0xbe08639b, 0xbe089837, 0xbe08f409, 0xbe09ab95, 0xbe0b66d0, 0xbe0e400a,
     0xbe124df8, 0xbe1bde02, 0xbe2f19c9, 0xbe4931bf, 0xbe685fbc, 0xbe89c95f, 0xbe96cbca, 0xbe8044aa,
     0xbe0550f2, 0x3dcfd6a1, 0x3e94c826, 0x3e79345f, 0x3decec91, 0x3ca46568, 0x3aa1e00a, 0x0,
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
    {0xba3d61db, 0x39f097a3, 0x3a5845dc, 0x3ab1fa35, 0x3b0cefb8, 0x3b653ab6, 0x3bcae527, 0x3c221712,
     0x3c6c5840, 0x3cc0a703, 0x3d1dcc19, 0x3d63656d, 0x3d955907, 0x3dbf9910, 0x3dd53f69, 0x3db7dcef,
     0x3d639ebe, 0xba6ede48, 0xbd22be69, 0xbd041cf1, 0xbc64f5ab, 0xbb097a32, 0xb8ebf380, 0x0,
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0},
    {0x3cb7d80c, 0x3c9b6050, 0x3c978d11, 0x3c92e850, 0x3c8d058b, 0x3c848454, 0x3c6cd623, 0x3c4c824b,
     0x3c2a7935, 0x3be0b390, 0x3b0651ac, 0xbb232f53, 0xbbd42fa0, 0xbc2c5366, 0xbc492c9e, 0xbc2a7aa6,
     0xbbd55d04, 0xba823a76, 0x3b102aa8, 0x3ae25a7e, 0x3a31f792, 0x38b84375, 0x3689bb5a, 0x0,
     0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0}};
#define AG_DNN_GELU(T, U, I, N)                                                        \
  FN T dnn_gelu_##T(T x) {                                                             \
    const T a = abs_##T(x);                                                            \
    I k = ((I)a + (int)0xc21fffffu) >> 21;                                             \
    k = (k & (k > 0)) | (1 & ~(k > 0));                                                \
    k = (k & (k < 24)) | (24 & ~(k < 24));                                             \
    const I saturated = a > splat_##T(0x1.62b9dcp2f);                                  \
    k = (23 & saturated) | (k & ~saturated);                                           \
    T p = dnn_coefficient_##T(5, k);                                                   \
    for (int d = 4; d >= 0; d--) p = fma_##T(p, a, dnn_coefficient_##T(d, k));         \
    const T y = (T)((I)p ^ ((I)x & (I)splat_##T(-0.f)));                               \
    return x * (y + splat_##T(1.f)) * splat_##T(0.5f);                                 \
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
  const f32x16_unaligned *row = (const f32x16_unaligned *)ag_gelu_polynomials[d];
  return __builtin_shuffle((f32x16)row[0], (f32x16)row[1], k);
#endif
}
AG_DNN_GELU(f32x8, u32x8, i32x8, 8)
AG_DNN_GELU(f32x16, u32x16, i32x16, 16)
FN float dnn_gelu_f32(float x) { return dnn_gelu_f32x8(splat_f32x8(x))[0]; }
#else
#define AG_DNN_GELU(T)                                                                 \
  FN T dnn_gelu_##T(T x) {                                                             \
    const T r = x * splat_##T(0.70710678f), h = x * splat_##T(0.5f);                   \
    return fma_##T(dnn_erf_##T(r, dnn_exp_##T(-(r * r))), h, h);                       \
  }
AG_DNN_GELU(f32)
AG_DNN_GELU(f32x8)
AG_DNN_GELU(f32x16)
#endif

// oneDNN's bf16 result: AVX512_BF16 (AG_ONEDNN 3) turns denormals into zero.
#define AG_DNN_RND(T)                                                                  \
  FN T dnn_rnd_bf16_##T(T v) {                                                         \
    const T zero = copysign_##T(splat_##T(0.f), v);                                    \
    const T kept = AG_ONEDNN > 2                                                       \
                       ? select_##T(abs_##T(v) < splat_##T(0x1p-126f), zero, v)        \
                       : v;                                                            \
    return rnd_bf16_##T(kept);                                                         \
  }
AG_DNN_RND(f32)
AG_DNN_RND(f32x8)
AG_DNN_RND(f32x16)

// ---- conversions between element types of different sizes, one element at a time --------------------

FN double load_f32_f64(const float *p) { return *(const ag_one_f32 *)p; }
FN void store_f64_f32(double *p, float v) { *(ag_one_f64 *)p = v; }
FN void store_f32_f64(float *p, double v) { *(ag_one_f32 *)p = (float)v; }
FN void store_bf16_f64(u16 *p, double v) { store_bf16_f32(p, (float)v); }
FN void store_f16_f64(u16 *p, double v) { store_f16_f32(p, (float)v); }
