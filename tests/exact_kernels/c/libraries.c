// Functions of libraries that ATen calls; libtorch_cpu exports those of Sleef and MKL.
//
// libm_NAME: the C library's scalar function.
// vec_NAME: Vectorized<T>::NAME of ATen: Sleef with AVX2 and AVX-512, the C library by default.
// vml_NAME: MKL's vector function, the same bits for any length and alignment.

#define AG_LIBM(NAME)                                        \
  float NAME##f(float);                                      \
  double NAME(double);                                       \
  FN float libm_##NAME##_f32(float x) { return NAME##f(x); } \
  FN double libm_##NAME##_f64(double x) { return NAME(x); }  \
  AG_EACH(f32x8, 8, libm_##NAME, NAME##f)                    \
  AG_EACH(f32x16, 16, libm_##NAME, NAME##f)                  \
  AG_EACH(f64x4, 4, libm_##NAME, NAME)                       \
  AG_EACH(f64x8, 8, libm_##NAME, NAME)
#define AG_LIBM2(NAME)                                                   \
  float NAME##f(float, float);                                           \
  double NAME(double, double);                                           \
  FN float libm_##NAME##_f32(float x, float y) { return NAME##f(x, y); } \
  FN double libm_##NAME##_f64(double x, double y) { return NAME(x, y); } \
  AG_EACH2(f32x8, 8, libm_##NAME, NAME##f)                               \
  AG_EACH2(f32x16, 16, libm_##NAME, NAME##f)                             \
  AG_EACH2(f64x4, 4, libm_##NAME, NAME)                                  \
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
#define AG_SLEEF_T(T, V, NAME, F) \
  V F(V);                         \
  FN V vec_##NAME##_##V(V x) { return F(x); }
#define AG_SLEEF2_T(T, V, NAME, F) \
  V F(V, V);                       \
  FN V vec_##NAME##_##V(V x, V y) { return F(x, y); }
#else
#define AG_SLEEF_T(T, V, NAME, F) \
  FN V vec_##NAME##_##V(V x) { return libm_##NAME##_##V(x); }
#define AG_SLEEF2_T(T, V, NAME, F) \
  FN V vec_##NAME##_##V(V x, V y) { return libm_##NAME##_##V(x, y); }
#endif
#define AG_SLEEF8(M, NAME, S, U)         \
  M(f32, f32x8, NAME, Sleef_##S##f8_##U) \
  M(f64, f64x4, NAME, Sleef_##S##d4_##U)
#define AG_SLEEF16(M, NAME, S, U)          \
  M(f32, f32x16, NAME, Sleef_##S##f16_##U) \
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
#define AG_ERF32(V)                                                      \
  FN V vec_erf_##V(V x) {                                                \
    const V a = abs_##V(x), one = splat_##V(1.f);                        \
    const V t = one / fma_##V(splat_##V(0.3275911f), a, one);            \
    V r = fma_##V(splat_##V(1.061405429f), t, splat_##V(-1.453152027f)); \
    r = fma_##V(r, t, splat_##V(1.421413741f));                          \
    r = fma_##V(r, t, splat_##V(-0.284496736f));                         \
    r = fma_##V(r, t, splat_##V(0.254829592f));                          \
    const V y = fma_##V(-vec_exp_##V(-(x * x)) * t, r, one);             \
    const V negative = (V)((V##_bits)x & (V##_bits)splat_##V(-0.f));     \
    return (V)((V##_bits)y ^ (V##_bits)negative);                        \
  }
#define AG_ERF64(V) \
  FN V vec_erf_##V(V x) { return vec_sleef_erf_##V(x); }
#else
#define AG_ERF32(V) \
  FN V vec_erf_##V(V x) { return libm_erf_##V(x); }
#define AG_ERF64(V) AG_ERF32(V)
#endif
AG_ERF32(f32x8)
AG_ERF64(f64x4)
#ifdef __AVX512F__
AG_ERF32(f32x16)
AG_ERF64(f64x8)
#endif

#define AG_VML_MODE 0x140102L /* high accuracy, no flush to zero, errors ignored */
#define AG_VML_T(T, S, N, NAME, F)           \
  FN T vml_##NAME##_##T(T x) {               \
    T r;                                     \
    F(N, (const S*)&x, (S*)&r, AG_VML_MODE); \
    return r;                                \
  }
#define AG_VML(NAME, F)                           \
  void vms##F(int, const float*, float*, long);   \
  void vmd##F(int, const double*, double*, long); \
  AG_VML_T(f32, float, 1, NAME, vms##F)           \
  AG_VML_T(f32x8, float, 8, NAME, vms##F)         \
  AG_VML_T(f32x16, float, 16, NAME, vms##F)       \
  AG_VML_T(f64, double, 1, NAME, vmd##F)          \
  AG_VML_T(f64x4, double, 4, NAME, vmd##F)        \
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
