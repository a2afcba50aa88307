// Text in front of every generated kernel: vector types, arithmetic with explicit rounding,
// elements in memory. libraries.c and onednn.c follow it. Nothing includes a header. Compile with
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

#define AG_TYPES(T, S, N)                                        \
  typedef S T##x##N __attribute__((vector_size(sizeof(S) * N))); \
  typedef S T##x##N##_unaligned                                  \
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

#define AG_EACH(V, N, NAME, CALL)                  \
  FN V NAME##_##V(V a) {                           \
    V r;                                           \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i]); \
    return r;                                      \
  }
#define AG_EACH2(V, N, NAME, CALL)                       \
  FN V NAME##_##V(V a, V b) {                            \
    V r;                                                 \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i], b[i]); \
    return r;                                            \
  }
#define AG_EACH3(V, N, NAME, CALL)                             \
  FN V NAME##_##V(V a, V b, V c) {                             \
    V r;                                                       \
    for (int i = 0; i < N; i++) r[i] = CALL(a[i], b[i], c[i]); \
    return r;                                                  \
  }
#define AG_LANES(V, N, F)                  \
  AG_EACH(V, N, sqrt, __builtin_sqrt##F)   \
  AG_EACH(V, N, floor, __builtin_floor##F) \
  AG_EACH(V, N, ceil, __builtin_ceil##F)   \
  AG_EACH(V, N, trunc, __builtin_trunc##F) \
  AG_EACH(V, N, round_even, __builtin_rint##F)

#define AG_SCALAR(T, F)                                               \
  FN T sqrt_##T(T a) { return __builtin_sqrt##F(a); }                 \
  FN T floor_##T(T a) { return __builtin_floor##F(a); }               \
  FN T ceil_##T(T a) { return __builtin_ceil##F(a); }                 \
  FN T trunc_##T(T a) { return __builtin_trunc##F(a); }               \
  FN T round_even_##T(T a) { return __builtin_rint##F(a); }           \
  FN T fma_##T(T a, T b, T c) { return __builtin_fma##F(a, b, c); }   \
  FN T abs_##T(T a) { return __builtin_fabs##F(a); }                  \
  FN T copysign_##T(T a, T b) { return __builtin_copysign##F(a, b); } \
  FN T splat_##T(T a) { return a; }                                   \
  FN T select_##T(int c, T a, T b) { return c ? a : b; }              \
  FN int either_##T(int a, int b) { return a | b; }                   \
  FN int both_##T(int a, int b) { return a & b; }                       \
  FN int differ_##T(int a, int b) { return a ^ b; }
AG_SCALAR(f32, f)
AG_SCALAR(f64, )

#if defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)
#define AG_ROUNDING(V, P, N, S)                                           \
  FN V sqrt_##V(V a) { return __builtin_ia32_sqrt##S##256(a); }           \
  FN V floor_##V(V a) { return __builtin_ia32_round##S##256(a, 9); }      \
  FN V ceil_##V(V a) { return __builtin_ia32_round##S##256(a, 10); }      \
  FN V trunc_##V(V a) { return __builtin_ia32_round##S##256(a, 11); }     \
  FN V round_even_##V(V a) { return __builtin_ia32_round##S##256(a, 8); } \
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
#define AG_ROUNDING512(V, M, S)                                                             \
  FN V sqrt_##V(V a) { return __builtin_ia32_sqrt##S##512_mask(a, a, (M)-1, 4); }           \
  FN V floor_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 9, a, (M)-1, 4); }      \
  FN V ceil_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 10, a, (M)-1, 4); }      \
  FN V trunc_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 11, a, (M)-1, 4); }     \
  FN V round_even_##V(V a) { return __builtin_ia32_rndscale##S##_mask(a, 8, a, (M)-1, 4); } \
  FN V fma_##V(V a, V b, V c) { return __builtin_ia32_vfmadd##S##512_mask(a, b, c, (M)-1, 4); }
AG_ROUNDING512(f32x16, u16, ps)
AG_ROUNDING512(f64x8, u8, pd)
#else
AG_LANES(f32x16, 16, f)
AG_LANES(f64x8, 8, )
AG_EACH3(f32x16, 16, fma, __builtin_fmaf)
AG_EACH3(f64x8, 8, fma, __builtin_fma)
#endif

// ---- what several instructions do, for each type ---------------------------------------------

#define AG_VECTOR(V, B, T, M)                                                  \
  FN V splat_##V(T c) { return c - (V){0}; } /* 0 + c would turn -0 into +0 */ \
  FN V select_##V(B c, V a, V b) { return (V)((c & (B)a) | (~c & (B)b)); }     \
  FN B either_##V(B a, B b) { return a | b; }                                  \
  FN B both_##V(B a, B b) { return a & b; }                                    \
  FN B differ_##V(B a, B b) { return a ^ b; }                                  \
  FN V abs_##V(V a) { return (V)((B)a & M); }                                  \
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
#define AG_ALL(T)                                                                                  \
  FN T muladd_##T(T a, T b, T c) { return AG_MULADD(T, a, b, c); }                                 \
  FN T min_x86_##T(T a, T b) { return select_##T(a < b, a, b); }                                   \
  FN T max_x86_##T(T a, T b) { return select_##T(a > b, a, b); }                                   \
  FN T minimum_##T(T a, T b) { return select_##T((a != a) | (b != b), a + b, min_x86_##T(a, b)); } \
  FN T maximum_##T(T a, T b) { return select_##T((a != a) | (b != b), a + b, max_x86_##T(a, b)); } \
  FN T recip_##T(T a) { return splat_##T(1) / a; }
AG_ALL(f32)
AG_ALL(f64)
AG_ALL(f32x8)
AG_ALL(f32x16)
AG_ALL(f64x4)
AG_ALL(f64x8)

// ---- elements in memory ------------------------------------------------------------------------

FN float bits_f32(u32 u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
FN u32 f32_bits(float f) {
  u32 u;
  __builtin_memcpy(&u, &f, 4);
  return u;
}

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

#define AG_HALVES(V, N, U, I)                                                           \
  FN u16x##N narrow_bf16_##V(V f) {                                                     \
    const U u = (U)f;                                                                   \
    const U r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;                                 \
    const I number = f == f;                                                            \
    return __builtin_convertvector((U)((number & (I)r) | (~number & 0xffff)), u16x##N); \
  }                                                                                     \
  FN V widen_bf16_##V(u16x##N h) { return (V)(__builtin_convertvector(h, U) << 16); }
AG_HALVES(f32x8, 8, u32x8, i32x8)
AG_HALVES(f32x16, 16, u32x16, i32x16)

#define AG_HALF_LANES(V, N)                                  \
  FN u16x##N narrow_f16_##V(V f) {                           \
    u16x##N r;                                               \
    for (int i = 0; i < N; i++) r[i] = narrow_f16_f32(f[i]); \
    return r;                                                \
  }                                                          \
  FN V widen_f16_##V(u16x##N h) {                            \
    V r;                                                     \
    for (int i = 0; i < N; i++) r[i] = widen_f16_f32(h[i]);  \
    return r;                                                \
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
#define AG_MEMORY(T, H)                                                           \
  FN T load_f32_##T(const float* p) { return *(const H##_f32*)p; }                \
  FN void store_f32_##T(float* p, T v) { *(H##_f32*)p = v; }                      \
  FN T rnd_f32_##T(T v) { return v; }                                             \
  FN T load_bf16_##T(const u16* p) { return widen_bf16_##T(*(const H##_u16*)p); } \
  FN void store_bf16_##T(u16* p, T v) { *(H##_u16*)p = narrow_bf16_##T(v); }      \
  FN T rnd_bf16_##T(T v) { return widen_bf16_##T(narrow_bf16_##T(v)); }           \
  FN T load_f16_##T(const u16* p) { return widen_f16_##T(*(const H##_u16*)p); }   \
  FN void store_f16_##T(u16* p, T v) { *(H##_u16*)p = narrow_f16_##T(v); }        \
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
#define AG_MEMORY64(T, H)                                     \
  FN T load_f64_##T(const double* p) { return *(const H*)p; } \
  FN void store_f64_##T(double* p, T v) { *(H*)p = v; }       \
  FN T rnd_f64_##T(T v) { return v; }
typedef double ag_one_f64 __attribute__((may_alias));
AG_MEMORY64(f64, ag_one_f64)
AG_MEMORY64(f64x4, f64x4_unaligned)
AG_MEMORY64(f64x8, f64x8_unaligned)

// Conditions: one byte an element in memory, all bits of a lane in a vector.
FN int load_bool_f32(const u8* p) { return *p != 0; }
FN int load_bool_f64(const u8* p) { return *p != 0; }
FN void store_bool_f32(u8* p, int c) { *p = c != 0; }
FN void store_bool_f64(u8* p, int c) { *p = c != 0; }
#define AG_BOOL(V, B, N)                                                   \
  FN B load_bool_##V(const u8* p) {                                        \
    return __builtin_convertvector(*(const u8x##N##_unaligned*)p, B) != 0; \
  }                                                                        \
  FN void store_bool_##V(u8* p, B c) {                                     \
    *(u8x##N##_unaligned*)p = __builtin_convertvector(c & 1, u8x##N);      \
  }
AG_BOOL(f32x8, i32x8, 8)
AG_BOOL(f32x16, i32x16, 16)
AG_BOOL(f64x4, i64x4, 4)
AG_BOOL(f64x8, i64x8, 8)

// ---- conversions between element types of different sizes, one element at a time

FN double load_f32_f64(const float* p) { return *(const ag_one_f32*)p; }
FN void store_f64_f32(double* p, float v) { *(ag_one_f64*)p = v; }
FN void store_f32_f64(float* p, double v) { *(ag_one_f32*)p = (float)v; }
FN void store_bf16_f64(u16* p, double v) { store_bf16_f32(p, (float)v); }
FN void store_f16_f64(u16* p, double v) { store_f16_f32(p, (float)v); }
