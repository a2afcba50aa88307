// Losses and embeddings.

// LossNLL.cpp: 8 levels, mean over the rows whose target is kept.
void nll_loss_f32(float* loss, float* kept, const float* x, const i64* target, i64 rows,
                  i64 classes, i64 ignored) {
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
void embedding_backward_f32(float* out, const float* g, const i64* indices, i64 n, i64 columns) {
  for (i64 i = 0; i < n; i++)
    for (i64 j = 0; j < columns; j++) out[indices[i] * columns + j] += g[i * columns + j];
}
