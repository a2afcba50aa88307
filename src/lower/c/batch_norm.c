// Batch normalisation, training, contiguous [n, channels, size]: Normalization.cpp. Behind
// layer_norm.c.

void batch_norm_f32(float* y, float* means, float* invstds, float* running_mean, float* running_var,
                    const float* x, const float* weight, const float* bias, i64 n, i64 channels,
                    i64 size, double momentum, double eps, i64 begin, i64 end) {
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
    running_var[c] =
        (float)((double)m * (double)(total / (count - 1)) + (double)(rest * running_var[c]));
    const float alpha = invstd * weight[c], beta = muladd_f32(-mean, alpha, bias[c]);
    for (i64 i = 0; i < n * size; i++) {
      const i64 at = (i / size * channels + c) * size + i % size;
      y[at] = muladd_f32(x[at], alpha, beta);
    }
  }
}

// batch_norm_kernel.cpp, batch_norm_cpu_backward_contiguous_impl. `weight` may be null.
void batch_norm_backward_f32(float* dx, float* dweight, float* dbias, const float* dy,
                             const float* in, const float* weight, const float* means,
                             const float* invstds, i64 n, i64 channels, i64 size, i64 begin,
                             i64 end) {
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
#define AG_ADD_DOT(a, j, count) \
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
