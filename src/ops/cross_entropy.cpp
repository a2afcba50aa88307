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
#include <ATen/ops/gather.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace antegrad::ops {
namespace {

// Rows for which a buffer of float32 stays in the caches, and that occupy a device. libtorch has
// other code for one row. On GPUs its order of summation depends on where a row lies in 16 bytes.
int64_t rows_of_chunk(const at::Tensor& logits) {
  const bool on_cpu = logits.is_cpu();
  const int64_t fewest = on_cpu ? 4 : 128, bytes = on_cpu ? 2 << 20 : 32 << 20;
  const int64_t rows = bytes / (4 * std::max<int64_t>(logits.size(1), 1));
  return std::max(fewest, on_cpu ? rows : rows / 8 * 8);
}

// float32, unless the logits have more.
at::ScalarType type_of_logs(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Of a column of picked elements, 0 is the only class.
constexpr int64_t kIgnored = -1;

// A buffer of a chunk of such logits in float32.
class Buffer {
 public:
  explicit Buffer(const at::Tensor& logits)
      : memory_(at::empty({std::min(logits.size(0), rows_of_chunk(logits)), logits.size(1)},
                          logits.options().dtype(type_of_logs(logits)))) {}

  at::Tensor rows(int64_t count) const { return memory_.narrow(0, 0, count); }

 private:
  const at::Tensor memory_;
};

bool is_half(const at::Tensor& tensor) { return tensor.scalar_type() != type_of_logs(tensor); }

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

// Calls `on_chunk(first, count)` for all rows, some at a time. On the CPU the last two chunks share
// what is left, so that none is much smaller.
template <class OnChunk>
void for_chunks(const at::Tensor& logits, OnChunk on_chunk) {
  const int64_t rows = logits.size(0), most = rows_of_chunk(logits);
  for (int64_t first = 0; first < rows;) {
    const int64_t left = rows - first;
    const bool shares = logits.is_cpu() && left < 2 * most;
    const int64_t count = left <= most ? left : shares ? left - left / 2 : most;
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
  for_chunks(logits, [&](int64_t first, int64_t count) {
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

// The logarithm of the probability of each row's class, 0 for what is ignored, on any device.
at::Tensor cross_entropy_rows(const at::Tensor& given, const at::Tensor& target,
                              int64_t ignore_index) {
  const auto logits = as_rows(given);
  const auto picked = at::empty({target.numel()}, logits.options().dtype(type_of_logs(logits)));
  const auto ignored = target.eq(ignore_index);
  const auto column = target.masked_fill(ignored, 0).unsqueeze(1);
  const Buffer wide(logits), buffer(logits);
  for_chunks(logits, [&](int64_t first, int64_t count) {
    const auto found = log_softmax(logits.narrow(0, first, count), wide, buffer);
    auto to = picked.narrow(0, first, count).unsqueeze(1);
    at::gather_out(to, found, 1, column.narrow(0, first, count));
  });
  return picked.masked_fill_(ignored, 0);
}

// The loss and the total weight of such logarithms. libtorch's kernel adds them.
std::tuple<at::Tensor, at::Tensor> cross_entropy_of_rows(const at::Tensor& picked,
                                                         const at::Tensor& target,
                                                         int64_t reduction, int64_t ignore_index) {
  const auto column = at::zeros_like(target).masked_fill_(target.eq(ignore_index), kIgnored);
  return at::nll_loss_forward(picked.unsqueeze(1), column, std::nullopt, reduction, kIgnored);
}

// `to` may be the logits.
void write_gradient(const at::Tensor& to, const at::Tensor& given, const at::Tensor& tangent,
                    const at::Tensor& target, const at::Tensor& total_weight, int64_t reduction,
                    int64_t ignore_index) {
  const auto logits = as_rows(given), gradient = as_rows(to);
  const Buffer one(logits), other(logits), third(is_half(logits) ? logits : logits.narrow(0, 0, 0));
  for_chunks(logits, [&](int64_t first, int64_t count) {
    const auto logs = log_softmax(logits.narrow(0, first, count), one, other);
    auto of_logs = one.rows(count);
    at::nll_loss_backward_out(of_logs, tangent, logs, target.narrow(0, first, count), std::nullopt,
                              reduction, ignore_index, total_weight);
    const auto rows = gradient.narrow(0, first, count);
    auto found = is_half(rows) ? third.rows(count) : rows;
    at::_log_softmax_backward_data_out(found, of_logs, logs, 1, logs.scalar_type());
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
  library.def("cross_entropy_rows(Tensor logits, Tensor target, int ignore_index) -> Tensor");
  library.def(
      "cross_entropy_of_rows(Tensor picked, Tensor target, int reduction, int ignore_index) "
      "-> (Tensor loss, Tensor total_weight)");
  library.def(
      "cross_entropy_backward(Tensor logits, Tensor grad_output, Tensor target, "
      "Tensor total_weight, int reduction, int ignore_index) -> Tensor");
  library.def(
      "cross_entropy_backward_(Tensor(a!) logits, Tensor grad_output, Tensor target, "
      "Tensor total_weight, int reduction, int ignore_index) -> Tensor(a!)");
  for (const auto key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    library.impl("cross_entropy_rows", key, cross_entropy_rows);
    library.impl("cross_entropy_of_rows", key, cross_entropy_of_rows);
    library.impl("cross_entropy_backward", key, cross_entropy_backward);
    library.impl("cross_entropy_backward_", key, cross_entropy_backward_);
  }
}

}  // namespace
}  // namespace antegrad::ops
