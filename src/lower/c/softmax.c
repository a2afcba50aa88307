// Softmax: SoftMaxKernel.cpp, the last dimension. Behind sums.c.

#define AG_X(j, count) W(part)(x + (j), count)
#define AG_MAX(a, j, count) W(maximum)(a, AG_X(j, count))
#define AG_Y(j, count) W(part)(y + (j), count)
#define AG_ADD_Y(a, j, count) ((a) + AG_Y(j, count))
#define AG_EXP(j, count) W(vec_exp)(AG_X(j, count) - W(splat)(top))
#define AG_ADD_EXP(a, j, count) ((a) + AG_EXP(j, count))
#define AG_G(j, count) W(part)(g + (j), count)
#define AG_ADD_G(a, j, count) ((a) + AG_G(j, count))

void softmax_f32(float* out, const float* in, i64 columns, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float* x = in + i * columns;
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

void log_softmax_f32(float* out, const float* in, i64 columns, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float* x = in + i * columns;
    float *y = out + i * columns, top, sum;
    AG_REDUCE(top, wide, AG_WIDE, columns, AG_X, AG_MAX, W(fold_maximum));
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_EXP, AG_ADD_EXP, W(fold_add));
    sum = W(vec_log)(W(splat)(sum))[0];
    for (i64 j = 0; j < columns; j++) y[j] = x[j] - top - sum;
  }
}

// `serial`: one row, or one thread. ATen's compiler made two copies of the loop, and fused the
// products of the last, partial vector in one of them.
void softmax_backward_f32(float* out, const float* grad, const float* result, i64 columns,
                          i64 serial, i64 begin, i64 end) {
  for (i64 i = begin; i < end; i++) {
    const float *g = grad + i * columns, *y = result + i * columns;
    float sum;
#define AG_GY(j, count) (AG_G(j, count) * AG_Y(j, count))
#define AG_ADD_GY(a, j, count)                           \
  ((count) == AG_WIDE || !serial ? (a) + AG_GY(j, count) \
                                 : W(muladd)(AG_G(j, count), AG_Y(j, count), a))
    AG_REDUCE(sum, wide, AG_WIDE, columns, AG_GY, AG_ADD_GY, W(fold_add));
    for (i64 j = 0; j < columns; j++) out[i * columns + j] = (g[j] - sum) * y[j];
  }
}

void log_softmax_backward_f32(float* out, const float* grad, const float* result, i64 columns,
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

// Halves: exponentials of whole vectors, then of single elements by the C library. `row` is room
// for one row.
#define AG_SOFTMAX_HALF(E)                                                                  \
  void softmax_##E(u16* out, const u16* in, float* row, i64 columns, i64 begin, i64 end) {  \
    for (i64 i = begin; i < end; i++) {                                                     \
      const u16* x = in + i * columns;                                                      \
      float top = -__builtin_inff();                                                        \
      for (i64 j = 0; j < columns; j++) {                                                   \
        row[j] = AG_ONE_##E(x + j);                                                         \
        top = row[j] > top ? row[j] : top;                                                  \
      }                                                                                     \
      wide sums = {0};                                                                      \
      i64 j = 0;                                                                            \
      for (; j + AG_WIDE <= columns; j += AG_WIDE) {                                        \
        const wide e = W(vec_exp)(W(part)(row + j, AG_WIDE) - W(splat)(top));               \
        for (int k = 0; k < AG_WIDE; k++) row[j + k] = e[k];                                \
        sums += e;                                                                          \
      }                                                                                     \
      float sum = W(fold_add)(sums, AG_WIDE);                                               \
      for (; j < columns; j++) sum += row[j] = libm_exp_f32(row[j] - top);                  \
      const float scale = 1.f / sum;                                                        \
      for (j = 0; j < columns; j++) store_##E##_f32(out + i * columns + j, row[j] * scale); \
    }                                                                                       \
  }
AG_SOFTMAX_HALF(bf16)
AG_SOFTMAX_HALF(f16)

// ---- softmax over another dimension than the last: vec_softmax
// Columns [begin, end) of outer * inner. Whole vectors of neighbouring columns that end within
// their inner part and within this thread's share; single columns otherwise.
void softmax_inner_f32(float* out, const float* in, i64 dim, i64 inner, i64 begin, i64 end) {
  for (i64 i = begin; i < end;) {
    const i64 at = i / inner * dim * inner + i % inner;
    const float* x = in + at;
    float* y = out + at;
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

// ---- the last dimension, halves: `x`, `g` and `y` are room for rows of float32

FN void widen_row_bf16(float* row, const u16* p, i64 n) {
  for (i64 j = 0; j < n; j++) row[j] = AG_ONE_bf16(p + j);
}
FN void widen_row_f16(float* row, const u16* p, i64 n) {
  for (i64 j = 0; j < n; j++) row[j] = AG_ONE_f16(p + j);
}
#define AG_ADD_G_Y(a, j, count) ((a) + AG_GY(j, count))

// log_softmax rounds the sum, and its logarithm, to the element type.
#define AG_SOFTMAX_HALVES(E)                                                                      \
  void log_softmax_##E(u16* out, const u16* in, float* x, i64 columns, i64 begin, i64 end) {      \
    for (i64 i = begin; i < end; i++) {                                                           \
      widen_row_##E(x, in + i * columns, columns);                                                \
      float top = x[0], sum;                                                                      \
      for (i64 j = 1; j < columns; j++) top = maximum_f32(top, x[j]);                             \
      AG_REDUCE_HALF(sum, wide, AG_WIDE, columns, AG_EXP, AG_ADD_EXP, W(fold_add));               \
      sum = rnd_##E##_f32(W(vec_log)(W(splat)(rnd_##E##_f32(sum)))[0]);                           \
      for (i64 j = 0; j < columns; j++) store_##E##_f32(out + i * columns + j, x[j] - top - sum); \
    }                                                                                             \
  }                                                                                               \
  void softmax_backward_##E(u16* out, const u16* grad, const u16* result, float* g, float* y,     \
                            i64 columns, i64 begin, i64 end) {                                    \
    for (i64 i = begin; i < end; i++) {                                                           \
      widen_row_##E(g, grad + i * columns, columns);                                              \
      widen_row_##E(y, result + i * columns, columns);                                            \
      float sum;                                                                                  \
      AG_REDUCE_HALF(sum, wide, AG_WIDE, columns, AG_GY, AG_ADD_G_Y, W(fold_add));                \
      for (i64 j = 0; j < columns; j++)                                                           \
        store_##E##_f32(out + i * columns + j, (g[j] - sum) * y[j]);                              \
    }                                                                                             \
  }                                                                                               \
  void log_softmax_backward_##E(u16* out, const u16* grad, const u16* result, float* g, float* y, \
                                i64 columns, i64 begin, i64 end) {                                \
    for (i64 i = begin; i < end; i++) {                                                           \
      widen_row_##E(g, grad + i * columns, columns);                                              \
      widen_row_##E(y, result + i * columns, columns);                                            \
      float sum;                                                                                  \
      AG_REDUCE_HALF(sum, wide, AG_WIDE, columns, AG_G, AG_ADD_G, W(fold_add));                   \
      for (i64 j = 0; j < columns; j++) {                                                         \
        const float e = W(vec_exp)(W(splat)(y[j]))[0];                                            \
        store_##E##_f32(out + i * columns + j, muladd_f32(-e, sum, g[j]));                        \
      }                                                                                           \
    }                                                                                             \
  }
AG_SOFTMAX_HALVES(bf16)
AG_SOFTMAX_HALVES(f16)
