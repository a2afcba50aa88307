// Reductions in the order in which ATen's kernels add, behind prelude.c. Each function computes what
// one ATen kernel computes; src/lower/recipes/reductions.txt says which and when.
//
// ATen registers sums, moments and layer normalisation for AVX2 at most, and softmax for AVX-512 too.

#if AG_CAPABILITY > 1
typedef f32x16 wide;
#define AG_WIDE 16
#define W(name) name##_f32x16
#define AG_PERMUTE(v, ...) __builtin_shuffle(v, (i32x16){__VA_ARGS__})
#else
typedef f32x8 wide;
#define AG_WIDE 8
#define W(name) name##_f32x8
#endif

FN i64 least(i64 a, i64 b) { return a < b ? a : b; }
FN i64 ceil_log2(i64 n) { return n <= 2 ? 1 : 64 - __builtin_clzl(n - 1); }

// ---- sums: SumKernel.cpp, cascade_sum -------------------------------------------------------------
// `lanes` (at most 4) accumulators, each of 4 levels. A level passes its sum on after 2^power steps.

FN i64 cascade_power(i64 n) {
  const i64 power = ceil_log2(n) / 4;
  return power < 4 ? 4 : power;
}
#define AG_CASCADE(NAME, T, LOAD)                                                      \
  FN void NAME(T *sums, const char *p, i64 step, i64 apart, int lanes, i64 n) {        \
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
  FN T NAME##_four(const char *p, i64 step, i64 n) {                                   \
    T sums[4];                                                                         \
    NAME(sums, p, step * 4, step, 4, n / 4);                                           \
    for (i64 i = n / 4 * 4; i < n; i++) sums[0] += LOAD(p + i * step);                 \
    for (int k = 1; k < 4; k++) sums[0] += sums[k];                                    \
    return sums[0];                                                                    \
  }
// A vector of halves is widened to two of float32, which are added.
#define AG_ONE_f32(p) load_f32_f32((const float *)(p))
#define AG_ONE_bf16(p) load_bf16_f32((const u16 *)(p))
#define AG_ONE_f16(p) load_f16_f32((const u16 *)(p))
#define AG_VECTOR_f32(p) load_f32_f32x8((const float *)(p))
#define AG_VECTOR_bf16(p) (load_bf16_f32x8((const u16 *)(p)) + load_bf16_f32x8((const u16 *)(p) + 8))
#define AG_VECTOR_f16(p) (load_f16_f32x8((const u16 *)(p)) + load_f16_f32x8((const u16 *)(p) + 8))

#define AG_SUM(E, C, LENGTH)                                                           \
  AG_CASCADE(cascade_##E, float, AG_ONE_##E)                                           \
  AG_CASCADE(cascade_vectors_##E, f32x8, AG_VECTOR_##E)                                \
  FN float sum_of_##E(const C *p, i64 n) {                                             \
    const i64 vectors = n / LENGTH;                                                    \
    if (vectors == 0) return cascade_##E##_four((const char *)p, sizeof(C), n);        \
    const f32x8 v = cascade_vectors_##E##_four((const char *)p, sizeof(C) * LENGTH, vectors); \
    float sum = 0;                                                                     \
    for (i64 i = vectors * LENGTH; i < n; i++) sum += AG_ONE_##E(p + i);               \
    for (int k = 0; k < 8; k++) sum += v[k];                                           \
    return sum;                                                                        \
  }                                                                                    \
  /* sum over the last of two dimensions, or of all for one row and one thread */      \
  void sum_rows_##E(C *out, const C *x, i64 rows, i64 columns, i64 begin, i64 end) {   \
    (void)rows;                                                                        \
    for (i64 i = begin; i < end; i++) store_##E##_f32(out + i, 0.f + sum_of_##E(x + i * columns, columns)); \
  }                                                                                    \
  void mean_rows_##E(C *out, const C *x, i64 rows, i64 columns, i64 begin, i64 end) {  \
    (void)rows;                                                                        \
    for (i64 i = begin; i < end; i++)                                                  \
      store_##E##_f32(out + i, (0.f + sum_of_##E(x + i * columns, columns)) / (float)columns); \
  }
AG_SUM(f32, float, 8)
AG_SUM(bf16, u16, 16)
AG_SUM(f16, u16, 16)

// Sum over the first of two dimensions. A chunk of threads begins at a multiple of 32 columns.
void sum_columns_f32(float *out, const float *x, i64 rows, i64 columns, i64 begin, i64 end) {
  const char *p = (const char *)x;
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
void sum_parts_f32(float *out, const float *partial, i64 threads) {
  out[0] = cascade_f32_four((const char *)partial, 4, threads);
}

// Variance over the last dimension: Welford in float64, one element after the other.
void var_rows_f32(float *out, const float *x, i64 rows, i64 columns, i64 begin, i64 end) {
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

// ---- layer normalisation: moments_utils.h, layer_norm_kernel.cpp ---------------------------------

typedef struct {
  i64 count;
  f32x8 mean, squares;
} moment;

FN void merge(moment *into, i64 count, f32x8 mean, f32x8 squares) {
  const i64 total = into->count + count;
  const f32x8 c = splat_f32x8(total == 0 ? 0.f : (float)count / (float)total);
  const f32x8 delta = mean - into->mean, step = c * delta;
  const f32x8 sum = into->squares + squares;
  into->mean = into->mean + step;
  into->squares = muladd_f32x8(delta * splat_f32x8((float)into->count), step, sum);
  into->count = total;
}

// Mean and variance of a row: chunks of 16 vectors by Welford, merged pairwise, then lane by lane
// behind the elements that fill no vector. Halves: two accumulators a vector. ATen's compiler FUSED
// the last elements' products for float16 alone.
#define AG_MOMENTS(E, C, LENGTH, FUSED)                                                \
  FN void moments_##E(const C *x, i64 n, float *mean, float *variance) {               \
    const i64 vectors = n / LENGTH, chunks = (vectors + 15) / 16;                      \
    const i64 depth = chunks <= 1 ? 0 : ceil_log2(chunks);                             \
    moment stack[64];                                                                  \
    for (i64 i = 0; i <= depth; i++) stack[i] = (moment){0, (f32x8){0}, (f32x8){0}};   \
    for (i64 i = 0; i < chunks; i++) {                                                 \
      const i64 steps = least(vectors - i * 16, 16);                                   \
      f32x8 m[2] = {{0}}, s[2] = {{0}};                                                \
      for (i64 j = 0; j < steps; j++)                                                  \
        for (int h = 0; h < LENGTH / 8; h++) {                                         \
          const f32x8 v = load_##E##_f32x8(x + (i * 16 + j) * LENGTH + h * 8);         \
          const f32x8 delta = v - m[h];                                                \
          m[h] = muladd_f32x8(splat_f32x8(1.f / (float)(j + 1)), delta, m[h]);         \
          s[h] = muladd_f32x8(delta, v - m[h], s[h]);                                  \
        }                                                                              \
      for (int h = 0; h < LENGTH / 8; h++) merge(&stack[0], steps, m[h], s[h]);        \
      i64 mask = i + 1;                                                                \
      for (i64 j = 1; j < depth && !(mask & 1); j++, mask >>= 1) {                     \
        merge(&stack[j], stack[j - 1].count, stack[j - 1].mean, stack[j - 1].squares); \
        stack[j - 1] = (moment){0, (f32x8){0}, (f32x8){0}};                            \
      }                                                                                \
    }                                                                                  \
    for (i64 i = 1; i < depth; i++)                                                    \
      merge(&stack[0], stack[i].count, stack[i].mean, stack[i].squares);               \
    i64 count = 0;                                                                     \
    float m = 0, s = 0;                                                                \
    for (i64 i = vectors * LENGTH; i < n; i++) {                                       \
      const float v = AG_ONE_##E(x + i), delta = v - m;                                \
      m += delta / (float)++count;                                                     \
      s = FUSED ? muladd_f32(delta, v - m, s) : s + delta * (v - m);                   \
    }                                                                                  \
    const i64 each = vectors * (LENGTH / 8);                                           \
    for (int k = 0; k < 8; k++) {                                                      \
      const i64 total = count + each;                                                  \
      const float c = total == 0 ? 0.f : (float)each / (float)total;                   \
      const float delta = stack[0].mean[k] - m;                                        \
      m = muladd_f32(c, delta, m);                                                     \
      s = s + muladd_f32(delta * delta * c, (float)count, stack[0].squares[k]);        \
      count = total;                                                                   \
    }                                                                                  \
    *mean = m, *variance = s / (float)n;                                               \
  }
AG_MOMENTS(f32, float, 8, 0)
AG_MOMENTS(bf16, u16, 16, 0)
AG_MOMENTS(f16, u16, 16, 1)

// weight and bias may be null. eps is rounded to float32 by the caller.
void layer_norm_f32(float *y, float *means, float *rstds, const float *x, const float *weight,
    const float *bias, i64 columns, float eps, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    float mean, variance;
    moments_f32(x + i * columns, columns, &mean, &variance);
    const float rstd = 1.f / sqrt_f32(variance + eps);
    means[i] = mean, rstds[i] = rstd;
    for (i64 j = 0; j < columns; j++) {
      const float v = (x[i * columns + j] + (-mean)) * rstd;
      y[i * columns + j] = muladd_f32(v, weight ? weight[j] : 1.f, bias ? bias[j] : 0.f);
    }
  }
}
#define AG_LAYER_NORM_HALF(E)                                                          \
  void layer_norm_##E(u16 *y, u16 *means, u16 *rstds, const u16 *x, const u16 *weight, \
      const u16 *bias, i64 columns, float eps, i64 begin, i64 end) {                   \
    for (i64 i = begin; i < end; i++) {                                                \
      float mean, variance;                                                            \
      moments_##E(x + i * columns, columns, &mean, &variance);                         \
      const float rstd = 1.f / sqrt_f32(variance + eps), shift = -rstd * mean;         \
      store_##E##_f32(means + i, mean), store_##E##_f32(rstds + i, rstd);              \
      for (i64 j = 0; j < columns; j++) {                                              \
        const float v = muladd_f32(AG_ONE_##E(x + i * columns + j), rstd, shift);      \
        const float w = weight ? AG_ONE_##E(weight + j) : 1.f;                         \
        const float b = bias ? AG_ONE_##E(bias + j) : 0.f;                             \
        store_##E##_f32(y + i * columns + j, muladd_f32(v, w, b));                     \
      }                                                                                \
    }                                                                                  \
  }
AG_LAYER_NORM_HALF(bf16)
AG_LAYER_NORM_HALF(f16)

// ---- one vector accumulator: functional_base.h, vec::reduce_all and its kin -------------------------
// Lanes that the last, partial vector does not reach keep what they have. The lanes are then folded:
// halves, quarters, ... by default one after the other. A row shorter than a vector is folded alone.

#define AG_FOLD(V, N, NAME, OP)                                                        \
  FN float NAME##_##V(V v, i64 count) {                                                \
    float f[N];                                                                        \
    for (int k = 0; k < N; k++) f[k] = v[k];                                           \
    if (count < N || AG_CAPABILITY == 0) {                                             \
      for (int k = 1; k < least(count, N); k++) f[0] = OP(f[0], f[k]);                 \
      return f[0];                                                                     \
    }                                                                                  \
    for (int half = N / 2; half > 0; half /= 2)                                        \
      for (int k = 0; k < half; k++) f[k] = OP(f[k], f[k + half]);                     \
    return f[0];                                                                       \
  }
FN float add_f32(float a, float b) { return a + b; }
AG_FOLD(f32x8, 8, fold_add, add_f32)
AG_FOLD(f32x8, 8, fold_maximum, maximum_f32)
#if AG_CAPABILITY > 1
AG_FOLD(f32x16, 16, fold_add, add_f32)
AG_FOLD(f32x16, 16, fold_maximum, maximum_f32)
#endif

// LOAD(j, count): `count` elements from j on in a vector. STEP(accumulator, j, count).
#define AG_REDUCE(RESULT, V, N, n, FIRST, STEP, FOLD)                                  \
  do {                                                                                 \
    V accumulator = FIRST(0, least(n, N));                                             \
    for (i64 j = N; j < (n); j += N) {                                                 \
      const i64 count = least((n)-j, N);                                               \
      const V next = STEP(accumulator, j, count);                                      \
      for (i64 k = 0; k < count; k++) accumulator[k] = next[k];                        \
    }                                                                                  \
    RESULT = FOLD(accumulator, n);                                                     \
  } while (0)

FN f32x8 part_f32x8(const float *p, i64 count) {
  if (count == 8) return load_f32_f32x8(p);
  f32x8 v = {0};
  for (i64 k = 0; k < count; k++) v[k] = p[k];
  return v;
}
#if AG_CAPABILITY > 1
FN f32x16 part_f32x16(const float *p, i64 count) {
  if (count == 16) return load_f32_f32x16(p);
  f32x16 v = {0};
  for (i64 k = 0; k < count; k++) v[k] = p[k];
  return v;
}
#endif

// ---- softmax: SoftMaxKernel.cpp, the last dimension -------------------------------------------------

#define AG_X(j, count) W(part)(x + (j), count)
#define AG_MAX(a, j, count) W(maximum)(a, AG_X(j, count))
#define AG_Y(j, count) W(part)(y + (j), count)
#define AG_ADD_Y(a, j, count) ((a) + AG_Y(j, count))
#define AG_EXP(j, count) W(vec_exp)(AG_X(j, count) - W(splat)(top))
#define AG_ADD_EXP(a, j, count) ((a) + AG_EXP(j, count))
#define AG_G(j, count) W(part)(g + (j), count)
#define AG_ADD_G(a, j, count) ((a) + AG_G(j, count))

void softmax_f32(float *out, const float *in, i64 columns, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float *x = in + i * columns;
    float *y = out + i * columns, top, sum;
    AG_REDUCE(top, wide, AG_WIDE, columns, AG_X, AG_MAX, W(fold_maximum));
    for (i64 j = 0; j < columns; j += AG_WIDE) {
      const i64 count = least(columns - j, AG_WIDE);
      const wide e = AG_EXP(j, count);
      for (i64 k = 0; k < count; k++) y[j + k] = e[k];
    }
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_Y, AG_ADD_Y, W(fold_add));
    const float scale = 1.f / sum;
    for (i64 j = 0; j < columns; j++) y[j] *= scale;
  }
}

void log_softmax_f32(float *out, const float *in, i64 columns, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float *x = in + i * columns;
    float *y = out + i * columns, top, sum;
    AG_REDUCE(top, wide, AG_WIDE, columns, AG_X, AG_MAX, W(fold_maximum));
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_EXP, AG_ADD_EXP, W(fold_add));
    sum = W(vec_log)(W(splat)(sum))[0];
    for (i64 j = 0; j < columns; j++) y[j] = x[j] - top - sum;
  }
}

// `serial`: one row, or one thread. ATen's compiler made two copies of the loop, and fused the
// products of the last, partial vector in one of them.
void softmax_backward_f32(float *out, const float *grad, const float *result, i64 columns, i64 serial,
    i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float *g = grad + i * columns, *y = result + i * columns;
    float sum;
#define AG_GY(j, count) (AG_G(j, count) * AG_Y(j, count))
#define AG_ADD_GY(a, j, count)                                                         \
  ((count) == AG_WIDE || !serial ? (a) + AG_GY(j, count)                               \
                                 : W(muladd)(AG_G(j, count), AG_Y(j, count), a))
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_GY, AG_ADD_GY, W(fold_add));
    for (i64 j = 0; j < columns; j++) out[i * columns + j] = (g[j] - sum) * y[j];
  }
}

void log_softmax_backward_f32(float *out, const float *grad, const float *result, i64 columns,
    i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float *g = grad + i * columns, *y = result + i * columns;
    float sum;
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_G, AG_ADD_G, W(fold_add));
    for (i64 j = 0; j < columns; j += AG_WIDE) {
      const i64 count = least(columns - j, AG_WIDE);
      const wide d = W(muladd)(-W(vec_exp)(AG_Y(j, count)), W(splat)(sum), AG_G(j, count));
      for (i64 k = 0; k < count; k++) out[i * columns + j + k] = d[k];
    }
  }
}

// Halves: exponentials of whole vectors, then of single elements by the C library. `row` is room for
// one row.
#define AG_SOFTMAX_HALF(E)                                                             \
  void softmax_##E(u16 *out, const u16 *in, float *row, i64 columns, i64 begin, i64 end) { \
    for (i64 i = begin; i < end; i++) {                                                \
      const u16 *x = in + i * columns;                                                 \
      float top = -__builtin_inff();                                                   \
      for (i64 j = 0; j < columns; j++) {                                              \
        row[j] = AG_ONE_##E(x + j);                                                    \
        top = row[j] > top ? row[j] : top;                                             \
      }                                                                                \
      wide sums = {0};                                                                 \
      i64 j = 0;                                                                       \
      for (; j + AG_WIDE <= columns; j += AG_WIDE) {                                   \
        const wide e = W(vec_exp)(W(part)(row + j, AG_WIDE) - W(splat)(top));          \
        for (int k = 0; k < AG_WIDE; k++) row[j + k] = e[k];                           \
        sums += e;                                                                     \
      }                                                                                \
      float sum = W(fold_add)(sums, AG_WIDE);                                          \
      for (; j < columns; j++) sum += row[j] = libm_exp_f32(row[j] - top);             \
      const float scale = 1.f / sum;                                                   \
      for (j = 0; j < columns; j++) store_##E##_f32(out + i * columns + j, row[j] * scale); \
    }                                                                                  \
  }
AG_SOFTMAX_HALF(bf16)
AG_SOFTMAX_HALF(f16)

// ---- layer normalisation, backward: layer_norm_kernel.cpp (AVX2 at most) ------------------------------

// `weights` and `biases` are this thread's rows of two buffers that begin as zeros.
void layer_norm_backward_f32(float *dx, float *weights, float *biases, const float *dy,
    const float *in, const float *means, const float *rstds, const float *weight, i64 columns,
    i64 begin, i64 end) {
  const float share = 1.f / (float)columns;
  for (i64 i = begin; i < end; i++) {
    const float *g = dy + i * columns, *x = in + i * columns;
    const float a = rstds[i], mean = means[i];
    for (i64 j = 0; j < columns; j++) {
      weights[j] = muladd_f32(g[j], muladd_f32(a, x[j], -a * mean), weights[j]);
      biases[j] += g[j];
    }
    float ds, db;
#define AG_PART(p, j, count) part_f32x8((p) + (j), count)
#define AG_DS(j, count) (AG_PART(g, j, count) * AG_PART(x, j, count) * AG_PART(weight, j, count))
#define AG_ADD_DS(s, j, count)                                                         \
  ((count) == 8 ? (s) + AG_DS(j, count)                                                \
                : muladd_f32x8(AG_PART(g, j, count) * AG_PART(x, j, count), AG_PART(weight, j, count), s))
#define AG_DB(j, count) (AG_PART(g, j, count) * AG_PART(weight, j, count))
#define AG_ADD_DB(s, j, count)                                                         \
  ((count) == 8 ? (s) + AG_DB(j, count)                                                \
                : muladd_f32x8(AG_PART(g, j, count), AG_PART(weight, j, count), s))
    AG_REDUCE(ds, f32x8, 8, columns, AG_DS, AG_ADD_DS, fold_add_f32x8);
    AG_REDUCE(db, f32x8, 8, columns, AG_DB, AG_ADD_DB, fold_add_f32x8);
    const float b = muladd_f32(db, mean, -ds) * a * a * a * share;
    const float c = muladd_f32(-b, mean, -(db * a * share));
    for (i64 j = 0; j < columns; j++)
      dx[i * columns + j] = muladd_f32(b, x[j], a * g[j] * weight[j]) + c;
  }
}
// Adds the threads' rows in the order of threads.
void layer_norm_backward_sums_f32(float *out, const float *rows, i64 threads, i64 columns) {
  for (i64 j = 0; j < columns; j++) {
    float sum = 0;
    for (i64 t = 0; t < threads; t++) sum += rows[t * columns + j];
    out[j] = sum;
  }
}

// ---- losses and embeddings ------------------------------------------------------------------------

// LossNLL.cpp: 8 levels, mean over the rows whose target is kept.
void nll_loss_f32(float *loss, float *kept, const float *x, const i64 *target, i64 rows, i64 classes,
    i64 ignored) {
  i64 power = ceil_log2(rows) / 8, skipped = 0;
  power = power < 4 ? 4 : power;
  float level[8] = {0}, sum = 0;
  for (i64 i = 0; i < rows; i++) {
    if (target[i] == ignored) {
      skipped++;
      continue;
    }
    level[0] -= x[i * classes + target[i]];
    for (int j = 0; j + 1 < 8; j++) {
      if (i & (((1L << power) - 1) << (j * power))) break;
      level[j + 1] += level[j], level[j] = 0;
    }
  }
  for (int j = 0; j < 8; j++) sum += level[j];
  *kept = (float)(rows - skipped), *loss = sum / (float)(rows - skipped);
}

// Embedding.cpp: rows are added in the order of the indices.
void embedding_backward_f32(float *out, const float *g, const i64 *indices, i64 n, i64 columns) {
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j < columns; j++) out[indices[i] * columns + j] += g[i * columns + j];
}

// ---- batch normalisation, training, contiguous [n, channels, size]: Normalization.cpp -------------------

void batch_norm_f32(float *y, float *means, float *invstds, float *running_mean, float *running_var,
    const float *x, const float *weight, const float *bias, i64 n, i64 channels, i64 size,
    double momentum, double eps, i64 begin, i64 end) {
  const float count = (float)(n * size), m = (float)momentum, rest = 1.f - m;
  for (i64 c = begin; c < end; c++) {
    double sum = 0, squares = 0;
    for (i64 i = 0; i < n * size; i++) sum += x[(i / size * channels + c) * size + i % size];
    const float mean = (float)(sum / (double)(n * size));
    for (i64 i = 0; i < n * size; i++) {
      const float delta = x[(i / size * channels + c) * size + i % size] - mean;
      squares += delta * delta;
    }
    const float total = (float)squares;
    const float invstd = (float)(1 / sqrt_f64((double)(total / count) + eps));
    means[c] = mean, invstds[c] = invstd;
    running_mean[c] = m * mean + rest * running_mean[c];
    running_var[c] = (float)((double)m * (double)(total / (count - 1)) + (double)(rest * running_var[c]));
    const float alpha = invstd * weight[c], beta = muladd_f32(-mean, alpha, bias[c]);
    for (i64 i = 0; i < n * size; i++) {
      const i64 at = (i / size * channels + c) * size + i % size;
      y[at] = muladd_f32(x[at], alpha, beta);
    }
  }
}

// batch_norm_kernel.cpp, batch_norm_cpu_backward_contiguous_impl. `weight` may be null.
void batch_norm_backward_f32(float *dx, float *dweight, float *dbias, const float *dy, const float *in,
    const float *weight, const float *means, const float *invstds, i64 n, i64 channels, i64 size,
    i64 begin, i64 end) {
  for (i64 c = begin; c < end; c++) {
    const float mean = means[c], invstd = invstds[c], w = weight ? weight[c] : 1.f;
    double sum = 0, dot = 0;
    for (i64 b = 0; b < n; b++) {
      const float *x = in + (b * channels + c) * size, *g = dy + (b * channels + c) * size;
      float s, d;
#define AG_G8(j, count) AG_PART(g, j, count)
#define AG_ADD_G8(a, j, count) ((a) + AG_G8(j, count))
#define AG_CENTRED(j, count) (AG_PART(x, j, count) - splat_f32x8(mean))
#define AG_DOT(j, count) (AG_CENTRED(j, count) * AG_G8(j, count))
#define AG_ADD_DOT(a, j, count)                                                        \
  ((count) == 8 ? (a) + AG_DOT(j, count) : muladd_f32x8(AG_CENTRED(j, count), AG_G8(j, count), a))
      AG_REDUCE(s, f32x8, 8, size, AG_G8, AG_ADD_G8, fold_add_f32x8);
      AG_REDUCE(d, f32x8, 8, size, AG_DOT, AG_ADD_DOT, fold_add_f32x8);
      sum += s, dot += d;
    }
    const float count = (float)(n * size), grad_mean = (float)(sum / (double)(n * size));
    const float k = (float)dot * invstd * invstd / count;
    for (i64 b = 0; b < n; b++)
      for (i64 j = 0; j < size; j++) {
        const i64 at = (b * channels + c) * size + j;
        dx[at] = muladd_f32(-(in[at] - mean), k, dy[at] - grad_mean) * invstd * w;
      }
    dweight[c] = (float)(dot * (double)invstd), dbias[c] = (float)sum;
  }
}

// ---- softmax over another dimension than the last: vec_softmax -----------------------------------------
// Columns [begin, end) of outer * inner. Whole vectors of neighbouring columns that end within their
// inner part and within this thread's share; single columns otherwise.
void softmax_inner_f32(float *out, const float *in, i64 dim, i64 inner, i64 begin, i64 end) {
  for (i64 i = begin; i < end;) {
    const i64 at = i / inner * dim * inner + i % inner;
    const float *x = in + at;
    float *y = out + at;
    if (i % inner + AG_WIDE <= inner && i + AG_WIDE <= end) {
      wide top = W(load_f32)(x), sum = {0};
      for (i64 d = 1; d < dim; d++) top = W(maximum)(top, W(load_f32)(x + d * inner));
      for (i64 d = 0; d < dim; d++) {
        const wide e = W(vec_exp)(W(load_f32)(x + d * inner) - top);
        W(store_f32)(y + d * inner, e);
        sum += e;
      }
      for (i64 d = 0; d < dim; d++) W(store_f32)(y + d * inner, W(load_f32)(y + d * inner) / sum);
      i += AG_WIDE;
    } else {
      float top = x[0], sum = 0;
      for (i64 d = 1; d < dim; d++) top = max_x86_f32(x[d * inner], top);
      for (i64 d = 0; d < dim; d++) sum += y[d * inner] = libm_exp_f32(x[d * inner] - top);
      for (i64 d = 0; d < dim; d++) y[d * inner] /= sum;
      i++;
    }
  }
}
