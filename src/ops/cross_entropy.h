#pragma once

/// \file
/// log_softmax and nll_loss of rows of logits, some rows at a time: parts of the operators
/// antegrad::cross_entropy and antegrad::linear_cross_entropy.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace antegrad::ops {

/// Arguments of nll_loss without class weights. The reduction is the mean or the sum.
struct LossArguments {
  at::Tensor target;  ///< i64, one a row
  int64_t reduction = 0;
  int64_t ignore_index = 0;
};

/// Gathers the logarithm of the probability of each row's class, then adds them as libtorch does.
class RowLosses {
 public:
  /// `options`: those of the logits.
  RowLosses(LossArguments arguments, const at::TensorOptions& options);
  /// Logits [rows, classes], of rows from `first` on. Throws libtorch's error if a class is none.
  void add(const at::Tensor& logits, int64_t first);
  /// The loss and the total weight.
  std::tuple<at::Tensor, at::Tensor> reduced() const;

 private:
  const LossArguments arguments_;
  at::Tensor picked_, column_;
};

/// Writes the gradient of logits [rows, classes], of rows from `first` on. `to` may be the logits.
void write_loss_gradient(const at::Tensor& to, const at::Tensor& logits, int64_t first,
                         const at::Tensor& tangent, const at::Tensor& total_weight,
                         const LossArguments& arguments);

/// Calls `on_chunk(first, count)` for all rows, `most` at a time. The last two chunks share what is
/// left, so that none is much smaller.
template <class OnChunk>
void for_chunks(int64_t rows, int64_t most, OnChunk on_chunk) {
  for (int64_t first = 0; first < rows;) {
    const int64_t left = rows - first;
    const int64_t count = left <= most ? left : left < 2 * most ? left - left / 2 : most;
    on_chunk(first, count);
    first += count;
  }
}

}  // namespace antegrad::ops
