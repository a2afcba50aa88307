// Layer normalisation: moments_utils.h, layer_norm_kernel.cpp. Behind sums.c.

typedef struct {
  i64 count;
  f32x8 mean, squares;
} moment;

FN void merge(moment* into, i64 count, f32x8 mean, f32x8 squares) {
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
  FN void moments_##E(const C* x, i64 n, float* mean, float* variance) {               \
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
void layer_norm_f32(float* y, float* means, float* rstds, const float* x, const float* weight,
                    const float* bias, i64 columns, float eps, i64 begin, i64 end) {
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
  void layer_norm_##E(u16* y, u16* means, u16* rstds, const u16* x, const u16* weight, \
                      const u16* bias, i64 columns, float eps, i64 begin, i64 end) {   \
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

// ---- layer normalisation, backward: layer_norm_kernel.cpp (AVX2 at most)
// `weights` and `biases` are this thread's rows of two buffers that begin as zeros.
void layer_norm_backward_f32(float* dx, float* weights, float* biases, const float* dy,
                             const float* in, const float* means, const float* rstds,
                             const float* weight, i64 columns, i64 begin, i64 end) {
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
#define AG_ADD_DS(s, j, count) \
  ((count) == 8                \
       ? (s) + AG_DS(j, count) \
       : muladd_f32x8(AG_PART(g, j, count) * AG_PART(x, j, count), AG_PART(weight, j, count), s))
#define AG_DB(j, count) (AG_PART(g, j, count) * AG_PART(weight, j, count))
#define AG_ADD_DB(s, j, count)          \
  ((count) == 8 ? (s) + AG_DB(j, count) \
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
void layer_norm_backward_sums_f32(float* out, const float* rows, i64 threads, i64 columns) {
  for (i64 j = 0; j < columns; j++) {
    float sum = 0;
    for (i64 t = 0; t < threads; t++) sum += rows[t * columns + j];
    out[j] = sum;
  }
}

// Halves: the rows of `weights` and `biases` are rounded to the element type after each addition.
// `g`, `x` and `w` are room for a row of float32.
#define AG_FUSE_DS(s, j, count) \
  muladd_f32x8(AG_PART(g, j, count) * AG_PART(x, j, count), AG_PART(w, j, count), s)
#define AG_FUSE_DB(s, j, count) muladd_f32x8(AG_PART(g, j, count), AG_PART(w, j, count), s)
#define AG_FIRST_DS(j, count) (AG_PART(g, j, count) * AG_PART(x, j, count) * AG_PART(w, j, count))
#define AG_FIRST_DB(j, count) (AG_PART(g, j, count) * AG_PART(w, j, count))
#define AG_LAYER_NORM_BACKWARD_HALF(E)                                                       \
  void layer_norm_backward_##E(u16* dx, float* weights, float* biases, const u16* dy,        \
                               const u16* in, const u16* means, const u16* rstds,            \
                               const u16* weight, float* g, float* x, float* w, i64 columns, \
                               i64 begin, i64 end) {                                         \
    const float share = 1.f / (float)columns;                                                \
    for (i64 j = 0; j < columns; j++) w[j] = AG_ONE_##E(weight + j);                         \
    for (i64 i = begin; i < end; i++) {                                                      \
      const float a = AG_ONE_##E(rstds + i), mean = AG_ONE_##E(means + i);                   \
      for (i64 j = 0; j < columns; j++) {                                                    \
        g[j] = AG_ONE_##E(dy + i * columns + j), x[j] = AG_ONE_##E(in + i * columns + j);    \
        const float z = muladd_f32(a, x[j], -a * mean);                                      \
        weights[j] = rnd_##E##_f32(muladd_f32(g[j], z, weights[j]));                         \
        biases[j] = rnd_##E##_f32(biases[j] + g[j]);                                         \
      }                                                                                      \
      float ds, db;                                                                          \
      AG_REDUCE_HALF(ds, f32x8, 8, columns, AG_FIRST_DS, AG_FUSE_DS, fold_add_f32x8);        \
      AG_REDUCE_HALF(db, f32x8, 8, columns, AG_FIRST_DB, AG_FUSE_DB, fold_add_f32x8);        \
      const float b = muladd_f32(db, mean, -ds) * a * a * a * share;                         \
      const float c = muladd_f32(-b, mean, -(db * a * share));                               \
      for (i64 j = 0; j < columns; j++) {                                                    \
        const float d = muladd_f32(b, x[j], a * g[j] * w[j]) + c;                            \
        store_##E##_f32(dx + i * columns + j, d);                                            \
      }                                                                                      \
    }                                                                                        \
  }
AG_LAYER_NORM_BACKWARD_HALF(bf16)
AG_LAYER_NORM_BACKWARD_HALF(f16)
