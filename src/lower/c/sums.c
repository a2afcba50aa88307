// Orders of summation of ATen's kernels, behind prelude.c, libraries.c and onednn.c. A function
// with external linkage computes what one kernel computes; src/lower/recipes/reductions.txt says
// which.
//
// ATen registers sums, moments and layer normalisation for AVX2 at most, and softmax for AVX-512
// too.

#if AG_CAPABILITY > 1
typedef f32x16 wide;
#define AG_WIDE 16
#define W(name) name##_f32x16
#else
typedef f32x8 wide;
#define AG_WIDE 8
#define W(name) name##_f32x8
#endif

FN i64 least(i64 a, i64 b) { return a < b ? a : b; }
FN i64 ceil_log2(i64 n) { return n <= 2 ? 1 : 64 - __builtin_clzl(n - 1); }

// ---- sums: SumKernel.cpp, cascade_sum
// `lanes` (at most 4) accumulators, each of 4 levels. A level passes its sum on after 2^power
// steps.

FN i64 cascade_power(i64 n) {
  const i64 power = ceil_log2(n) / 4;
  return power < 4 ? 4 : power;
}
#define AG_CASCADE(NAME, T, LOAD)                                                      \
  FN void NAME(T* sums, const char* p, i64 step, i64 apart, int lanes, i64 n) {        \
    const i64 power = cascade_power(n), span = 1L << power;                            \
    T level[4][4];                                                                     \
    for (int j = 0; j < 4; j++)                                                        \
      for (int k = 0; k < 4; k++) level[j][k] = (T){0};                                \
    i64 i = 0;                                                                         \
    while (i + span <= n) {                                                            \
      for (i64 j = 0; j < span; j++, i++)                                              \
        for (int k = 0; k < lanes; k++) level[0][k] += LOAD(p + i * step + k * apart); \
      for (int j = 1; j < 4; j++) {                                                    \
        for (int k = 0; k < lanes; k++) {                                              \
          level[j][k] += level[j - 1][k];                                              \
          level[j - 1][k] = (T){0};                                                    \
        }                                                                              \
        if (i & ((span - 1) << (j * power))) break;                                    \
      }                                                                                \
    }                                                                                  \
    for (; i < n; i++)                                                                 \
      for (int k = 0; k < lanes; k++) level[0][k] += LOAD(p + i * step + k * apart);   \
    for (int j = 1; j < 4; j++)                                                        \
      for (int k = 0; k < lanes; k++) level[0][k] += level[j][k];                      \
    for (int k = 0; k < lanes; k++) sums[k] = level[0][k];                             \
  }                                                                                    \
  FN T NAME##_four(const char* p, i64 step, i64 n) {                                   \
    T sums[4];                                                                         \
    NAME(sums, p, step * 4, step, 4, n / 4);                                           \
    for (i64 i = n / 4 * 4; i < n; i++) sums[0] += LOAD(p + i * step);                 \
    for (int k = 1; k < 4; k++) sums[0] += sums[k];                                    \
    return sums[0];                                                                    \
  }
// A vector of halves is widened to two of float32, which are added.
#define AG_ONE_f32(p) load_f32_f32((const float*)(p))
#define AG_ONE_bf16(p) load_bf16_f32((const u16*)(p))
#define AG_ONE_f16(p) load_f16_f32((const u16*)(p))
#define AG_VECTOR_f32(p) load_f32_f32x8((const float*)(p))
#define AG_VECTOR_bf16(p) (load_bf16_f32x8((const u16*)(p)) + load_bf16_f32x8((const u16*)(p) + 8))
#define AG_VECTOR_f16(p) (load_f16_f32x8((const u16*)(p)) + load_f16_f32x8((const u16*)(p) + 8))

#define AG_SINGLE_f32(p) load_f32_f32x8((const float*)(p))
#define AG_SINGLE_bf16(p) load_bf16_f32x8((const u16*)(p))
#define AG_SINGLE_f16(p) load_f16_f32x8((const u16*)(p))

#define AG_SUM(E, C, LENGTH)                                                                   \
  AG_CASCADE(cascade_##E, float, AG_ONE_##E)                                                   \
  AG_CASCADE(cascade_vectors_##E, f32x8, AG_VECTOR_##E)                                        \
  FN float sum_of_##E(const C* p, i64 n) {                                                     \
    const i64 vectors = n / LENGTH;                                                            \
    if (vectors == 0) return cascade_##E##_four((const char*)p, sizeof(C), n);                 \
    const f32x8 v = cascade_vectors_##E##_four((const char*)p, sizeof(C) * LENGTH, vectors);   \
    float sum = 0;                                                                             \
    for (i64 i = vectors * LENGTH; i < n; i++) sum += AG_ONE_##E(p + i);                       \
    for (int k = 0; k < 8; k++) sum += v[k];                                                   \
    return sum;                                                                                \
  }                                                                                            \
  /* sum over the last of two dimensions, or of all for one row and one thread */              \
  void sum_rows_##E(C* out, const C* x, i64 rows, i64 columns, i64 begin, i64 end) {           \
    (void)rows;                                                                                \
    for (i64 i = begin; i < end; i++)                                                          \
      store_##E##_f32(out + i, 0.f + sum_of_##E(x + i * columns, columns));                    \
  }                                                                                            \
  /* a mean is the sum of elements widened before, divided by their number */                 \
  AG_CASCADE(cascade_single_##E, f32x8, AG_SINGLE_##E)                                        \
  FN float single_sum_of_##E(const C* p, i64 n) {                                             \
    if (n < 8) return cascade_##E##_four((const char*)p, sizeof(C), n);                       \
    const f32x8 v = cascade_single_##E##_four((const char*)p, sizeof(C) * 8, n / 8);          \
    float sum = 0;                                                                            \
    for (i64 i = n / 8 * 8; i < n; i++) sum += AG_ONE_##E(p + i);                             \
    for (int k = 0; k < 8; k++) sum += v[k];                                                  \
    return sum;                                                                               \
  }                                                                                           \
  void mean_rows_##E(C* out, const C* x, i64 rows, i64 columns, i64 begin, i64 end) {         \
    (void)rows;                                                                               \
    for (i64 i = begin; i < end; i++) {                                                       \
      const float sum = 0.f + single_sum_of_##E(x + i * columns, columns);                    \
      store_##E##_f32(out + i, sum / (float)columns);                                         \
    }                                                                                         \
  }
AG_SUM(f32, float, 8)
AG_SUM(bf16, u16, 16)
AG_SUM(f16, u16, 16)

// Sum over the first of two dimensions. A chunk of threads begins at a multiple of 32 columns.
void sum_columns_f32(float* out, const float* x, i64 rows, i64 columns, i64 begin, i64 end) {
  const char* p = (const char*)x;
  const i64 row = columns * 4;
  i64 j = begin;
  if (columns < 8) {
    for (; j + 4 <= end; j += 4) {
      float sums[4];
      cascade_f32(sums, p + j * 4, row, 4, 4, rows);
      for (int k = 0; k < 4; k++) out[j + k] = 0.f + sums[k];
    }
  } else {
    for (; j + 32 <= end; j += 32) {
      f32x8 sums[4];
      cascade_vectors_f32(sums, p + j * 4, row, 32, 4, rows);
      for (int k = 0; k < 4; k++) store_f32_f32x8(out + j + k * 8, splat_f32x8(0.f) + sums[k]);
    }
    for (; j + 8 <= end; j += 8)
      store_f32_f32x8(out + j, splat_f32x8(0.f) + cascade_vectors_f32_four(p + j * 4, row, rows));
  }
  for (; j < end; j++) out[j] = 0.f + cascade_f32_four(p + j * 4, row, rows);
}

// Sum of all elements by several threads: `partial` holds one sum of a chunk for each, else 0.
void sum_parts_f32(float* out, const float* partial, i64 threads) {
  out[0] = cascade_f32_four((const char*)partial, 4, threads);
}

// Variance over the last dimension: Welford in float64, one element after the other.
void var_rows_f32(float* out, const float* x, i64 rows, i64 columns, i64 begin, i64 end) {
  (void)rows;
  for (i64 i = begin; i < end; i++) {
    double mean = 0, squares = 0;
    for (i64 j = 0; j < columns; j++) {
      const double value = x[i * columns + j], delta = value - mean;
      mean += delta / (double)(j + 1);
      squares = muladd_f64(delta, value - mean, squares);
    }
    out[i] = (float)(squares / (double)(columns - 1));
  }
}

// ---- one vector accumulator: functional_base.h, vec::reduce_all and its kin
// Lanes that the last, partial vector does not reach keep what they have. The lanes are then
// folded: halves, quarters, ... by default one after the other. A row shorter than a vector is
// folded alone.

#define AG_FOLD(V, N, NAME, OP)                                        \
  FN float NAME##_##V(V v, i64 count) {                                \
    float f[N];                                                        \
    for (int k = 0; k < N; k++) f[k] = v[k];                           \
    if (count < N || AG_CAPABILITY == 0) {                             \
      for (int k = 1; k < least(count, N); k++) f[0] = OP(f[0], f[k]); \
      return f[0];                                                     \
    }                                                                  \
    for (int half = N / 2; half > 0; half /= 2)                        \
      for (int k = 0; k < half; k++) f[k] = OP(f[k], f[k + half]);     \
    return f[0];                                                       \
  }
FN float add_f32(float a, float b) { return a + b; }
AG_FOLD(f32x8, 8, fold_add, add_f32)
AG_FOLD(f32x8, 8, fold_maximum, maximum_f32)
#if AG_CAPABILITY > 1
AG_FOLD(f32x16, 16, fold_add, add_f32)
AG_FOLD(f32x16, 16, fold_maximum, maximum_f32)
#endif

// LOAD(j, count): `count` elements from j on in a vector. STEP(accumulator, j, count).
#define AG_REDUCE(RESULT, V, N, n, FIRST, STEP, FOLD)           \
  do {                                                          \
    V accumulator = FIRST(0, least(n, N));                      \
    for (i64 j = N; j < (n); j += N) {                          \
      const i64 count = least((n)-j, N);                        \
      const V next = STEP(accumulator, j, count);               \
      for (i64 k = 0; k < count; k++) accumulator[k] = next[k]; \
    }                                                           \
    RESULT = FOLD(accumulator, n);                              \
  } while (0)

FN f32x8 part_f32x8(const float* p, i64 count) {
  if (count == 8) return load_f32_f32x8(p);
  f32x8 v = {0};
  for (i64 k = 0; k < count; k++) v[k] = p[k];
  return v;
}
#if AG_CAPABILITY > 1
FN f32x16 part_f32x16(const float* p, i64 count) {
  if (count == 16) return load_f32_f32x16(p);
  f32x16 v = {0};
  for (i64 k = 0; k < count; k++) v[k] = p[k];
  return v;
}
#endif

// Halves: two accumulators, for the two vectors of float32 that a vector of halves becomes. A row
// that does not fill both is folded one lane after the other.
#define AG_REDUCE_HALF(RESULT, V, N, n, FIRST, STEP, FOLD)                   \
  do {                                                                       \
    V parts[2] = {{0}};                                                      \
    for (i64 j = 0; j < (n); j += N) {                                       \
      const i64 count = least((n)-j, N), h = j / N % 2;                      \
      const V next = j < 2 * N ? FIRST(j, count) : STEP(parts[h], j, count); \
      for (i64 k = 0; k < count; k++) parts[h][k] = next[k];                 \
    }                                                                        \
    if ((n) < 2 * N) {                                                       \
      if ((n) > N) {                                                         \
        const V next = STEP(parts[0], N, (n)-N);                             \
        for (i64 k = 0; k < (n)-N; k++) parts[0][k] = next[k];               \
      }                                                                      \
      RESULT = parts[0][0];                                                  \
      for (i64 k = 1; k < least(n, N); k++) RESULT += parts[0][k];           \
    } else {                                                                 \
      RESULT = FOLD(parts[0] + parts[1], N);                                 \
    }                                                                        \
  } while (0)
