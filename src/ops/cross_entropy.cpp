// antegrad::cross_entropy and its gradient: log_softmax and nll_loss of rows of logits, some rows
// at a time.
//
// The bits are those of _to_copy, _log_softmax and nll_loss_forward, and of their gradients:
// libtorch's kernels run on the rows of a chunk, and its sum of the losses over all rows. Each row
// is computed by itself there. What eager has for all rows at once, the logits as float32, their
// log_softmax and two gradients, exists for a chunk only.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace antegrad::ops {
namespace {

// Rows for which a buffer of float32 stays in the caches. libtorch has other code for one row.
int64_t rows_of_chunk(int64_t classes) {
  constexpr int64_t kFewest = 4, kBytes = 2 << 20;
  return std::max(kFewest, kBytes / (4 * std::max<int64_t>(classes, 1)));
}

// Of a column of picked elements, 0 is the only class.
constexpr int64_t kIgnored = -1;

// A float32 buffer of a chunk of such logits.
class Buffer {
 public:
  explicit Buffer(const at::Tensor& logits)
      : memory_(at::empty({std::min(logits.size(0), rows_of_chunk(logits.size(1))), logits.size(1)},
                          logits.options().dtype(at::kFloat))) {}

  at::Tensor rows(int64_t count) const { return memory_.narrow(0, 0, count); }

 private:
  const at::Tensor memory_;
};

bool is_half(const at::Tensor& tensor) { return tensor.scalar_type() != at::kFloat; }

// The log_softmax of a chunk, in a buffer. `wide` serves logits of halves.
at::Tensor log_softmax(const at::Tensor& logits, const Buffer& wide, const Buffer& to) {
  auto float32 = logits;
  if (is_half(logits)) {
    float32 = wide.rows(logits.size(0));
    float32.copy_(logits);
  }
  auto found = to.rows(logits.size(0));
  at::_log_softmax_out(found, float32, 1, false);
  return found;
}

at::Tensor as_rows(const at::Tensor& logits) {
  return logits.view({logits.numel() / std::max<int64_t>(logits.size(-1), 1), logits.size(-1)});
}

// Calls `on_chunk(first, count)` for all rows, `most` at a time. The last two chunks share what is
// left, so that none is much smaller.
template <class OnChunk>
void for_chunks(int64_t rows, int64_t most, OnChunk on_chunk) {
  for (int64_t first = 0; first < rows;) {
    const int64_t left = rows - first;
    const int64_t count = left <= most ? left : left < 2 * most ? left - left / 2 : most;
    on_chunk(first, count);
    first += count;
  }
}

// The loss and the total weight. Picks the logarithm of the probability of each row's class; then
// libtorch adds them. Throws libtorch's error if a class is none.
std::tuple<at::Tensor, at::Tensor> cross_entropy(const at::Tensor& given, const at::Tensor& target,
                                                 int64_t reduction, int64_t ignore_index) {
  const auto logits = as_rows(given), classes_of_rows = target.contiguous();
  const auto classes = logits.size(1);
  const auto picked = at::empty({target.numel(), 1}, logits.options().dtype(at::kFloat));
  const auto column = at::empty_like(classes_of_rows);
  const auto* const targets = classes_of_rows.const_data_ptr<int64_t>();
  auto* const losses = picked.mutable_data_ptr<float>();
  auto* const columns = column.mutable_data_ptr<int64_t>();
  const Buffer wide(logits), buffer(logits);
  for_chunks(logits.size(0), rows_of_chunk(classes), [&](int64_t first, int64_t count) {
    const auto found = log_softmax(logits.narrow(0, first, count), wide, buffer);
    const auto* const values = found.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) {
      const auto row_class = targets[first + i];
      const bool counts = row_class != ignore_index;
      TORCH_CHECK_INDEX(!counts || (row_class >= 0 && row_class < classes), "Target ", row_class,
                        " is out of bounds.");
      losses[first + i] = counts ? values[i * classes + row_class] : 0;
      columns[first + i] = counts ? 0 : kIgnored;
    }
  });
  return at::nll_loss_forward(picked, column, std::nullopt, reduction, kIgnored);
}

// `to` may be the logits.
void write_gradient(const at::Tensor& to, const at::Tensor& given, const at::Tensor& tangent,
                    const at::Tensor& target, const at::Tensor& total_weight, int64_t reduction,
                    int64_t ignore_index) {
  const auto logits = as_rows(given), gradient = as_rows(to);
  const Buffer one(logits), other(logits), third(is_half(logits) ? logits : logits.narrow(0, 0, 0));
  for_chunks(logits.size(0), rows_of_chunk(logits.size(1)), [&](int64_t first, int64_t count) {
    const auto logs = log_softmax(logits.narrow(0, first, count), one, other);
    auto of_logs = one.rows(count);
    at::nll_loss_backward_out(of_logs, tangent, logs, target.narrow(0, first, count), std::nullopt,
                              reduction, ignore_index, total_weight);
    const auto rows = gradient.narrow(0, first, count);
    auto found = is_half(rows) ? third.rows(count) : rows;
    at::_log_softmax_backward_data_out(found, of_logs, logs, 1, at::kFloat);
    if (is_half(rows)) rows.copy_(found);
  });
}

at::Tensor cross_entropy_backward(const at::Tensor& logits, const at::Tensor& tangent,
                                  const at::Tensor& target, const at::Tensor& total_weight,
                                  int64_t reduction, int64_t ignore_index) {
  auto gradient = at::empty_like(logits);
  write_gradient(gradient, logits, tangent, target, total_weight, reduction, ignore_index);
  return gradient;
}

at::Tensor& cross_entropy_backward_(at::Tensor& logits, const at::Tensor& tangent,
                                    const at::Tensor& target, const at::Tensor& total_weight,
                                    int64_t reduction, int64_t ignore_index) {
  write_gradient(logits, logits, tangent, target, total_weight, reduction, ignore_index);
  return logits;
}

TORCH_LIBRARY_FRAGMENT(antegrad, library) {
  library.def(
      "cross_entropy(Tensor logits, Tensor target, int reduction, int ignore_index) "
      "-> (Tensor loss, Tensor total_weight)");
  library.impl("cross_entropy", c10::DispatchKey::CPU, cross_entropy);
  library.def(
      "cross_entropy_backward(Tensor logits, Tensor grad_output, Tensor target, "
      "Tensor total_weight, int reduction, int ignore_index) -> Tensor");
  library.impl("cross_entropy_backward", c10::DispatchKey::CPU, cross_entropy_backward);
  library.def(
      "cross_entropy_backward_(Tensor(a!) logits, Tensor grad_output, Tensor target, "
      "Tensor total_weight, int reduction, int ignore_index) -> Tensor(a!)");
  library.impl("cross_entropy_backward_", c10::DispatchKey::CPU, cross_entropy_backward_);
}

}  // namespace
}  // namespace antegrad::ops
