#include <ATen/ATen.h>
#include <ATen/core/Reduction.h>

#include "support/shape_sample_parts.h"
#include "support/shape_samples.h"

namespace antegrad::testing {

namespace {

using R = RandomTensors;

// ---- Embedding and losses ----------------------------------------------------------------------

Arguments embedding(R& r) {
  const int64_t rows = r.integer(1, 5);
  return {r.tensor({rows, r.integer(0, 3)}, r.floating()), r.indices(r.shape(0, 3), rows),
          int64_t{-1}, false, false};
}

Arguments embedding_backward(R& r) {
  const int64_t rows = r.integer(1, 5);
  const Shape shape = r.shape(0, 3);
  return {r.tensor(joined(shape, {r.integer(1, 3)}), r.floating()), r.indices(shape, rows), rows,
          int64_t{-1}, false};
}

/// self (N, C, …), target (N, …), weight, reduction, ignore_index.
Arguments nll_loss(R& r, bool image_wise) {
  const Shape outer = r.full_shape(1, 1), inner = image_wise ? r.full_shape(2, 2) : Shape{};
  const int64_t classes = r.integer(1, 4);
  const at::ScalarType dtype = r.floating();
  if (!image_wise && r.chance(0.15)) {
    return {r.tensor({classes}, dtype), r.indices({}, classes), c10::IValue(), r.integer(0, 2),
            int64_t{-100}};
  }
  return {r.tensor(joined(joined(outer, {classes}), inner), dtype),
          r.indices(joined(outer, inner), classes),
          r.chance(0.5) ? c10::IValue() : c10::IValue(r.contiguous({classes}, dtype)),
          r.integer(0, 2), int64_t{-100}};
}

Arguments nll_loss_backward(R& r, bool image_wise) {
  Arguments a = nll_loss(r, image_wise);
  const at::Tensor self = a[0].toTensor(), target = a[1].toTensor();
  const bool reduced = a[3].toInt() != at::Reduction::None;
  a.insert(a.begin(), r.tensor(reduced ? Shape{} : target.sizes().vec(), self.scalar_type()));
  a.push_back(at::ones({}, self.options()));
  return a;
}

Arguments loss_backward(R& r, Arguments rest) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  const int64_t reduction = r.integer(0, 2);
  Arguments a = {r.tensor(reduction == at::Reduction::None ? shape : Shape{}, dtype),
                 r.tensor(shape, dtype), r.tensor(r.narrowed(shape), dtype)};
  a.insert(a.end(), rest.begin(), rest.end());
  a.insert(a.begin() + 3 + (rest.size() > 0 && rest[0].isNone() ? 1 : 0), reduction);
  return a;
}

Arguments cross_entropy(R& r, bool backward) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  const int64_t reduction = r.integer(0, 2);
  Arguments a;
  if (backward) a.push_back(r.tensor(reduction == 0 ? shape : Shape{}, dtype));
  a.push_back(r.tensor(shape, dtype));
  a.push_back(r.tensor(shape, dtype));
  a.push_back(r.chance(0.6) ? c10::IValue() : c10::IValue(r.tensor(r.narrowed(shape), dtype)));
  a.push_back(reduction);
  return a;
}

Arguments cross_entropy_with_logits(R& r) {
  Arguments a = cross_entropy(r, false);
  a.insert(a.begin() + 3, c10::IValue());
  return a;
}

/// No zero sizes: the CPU kernel divides by them (2.13).
Arguments softmax_backward(R& r) {
  const Shape shape = r.full_shape(0, 4);
  const at::ScalarType dtype = r.floating();
  const int64_t range = std::max<int64_t>(shape.size(), 1);
  return {r.tensor(shape, dtype), r.tensor(shape, dtype), r.integer(-range, range - 1),
          r.chance(0.9) ? dtype : at::kDouble};
}

/// The weight must not outgrow self: the kernel (2.13) then writes out of bounds.
Arguments prelu(R& r, bool backward) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  Arguments a = {r.tensor(shape, dtype), r.tensor(r.narrowed(shape), dtype)};
  if (backward) a.insert(a.begin(), r.tensor(shape, dtype));
  return a;
}

/// The oneDNN kernel (2.13) reads out of bounds when the operands broadcast.
Arguments gelu_backward(R& r) {
  const Shape shape = r.shape();
  return {r.tensor(shape, r.floating()), r.tensor(shape, r.floating()),
          r.chance(0.5) ? "none" : "tanh"};
}

Arguments glu_backward(R& r) {
  Shape shape = r.shape(1, 4);
  const int64_t dim = r.integer(0, shape.size() - 1);
  const at::ScalarType dtype = r.floating();
  const at::Tensor grad = r.tensor(shape, dtype);
  shape[dim] *= 2;
  return {grad, r.tensor(shape, dtype), dim};
}

}  // namespace

const ArgumentsTable& loss_samples() {
  static const ArgumentsTable table = {
      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", softmax_backward},
      {"aten::_prelu_kernel", [](R& r) { return prelu(r, false); }},
      {"aten::_prelu_kernel_backward", [](R& r) { return prelu(r, true); }},
      {"aten::gelu_backward", gelu_backward},
      {"aten::glu_backward", glu_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_backward},
      {"aten::nll_loss_forward", [](R& r) { return nll_loss(r, false); }},
      {"aten::nll_loss_backward", [](R& r) { return nll_loss_backward(r, false); }},
      {"aten::nll_loss2d_forward", [](R& r) { return nll_loss(r, true); }},
      {"aten::nll_loss2d_backward", [](R& r) { return nll_loss_backward(r, true); }},
      {"aten::mse_loss_backward", [](R& r) { return loss_backward(r, {}); }},
      {"aten::smooth_l1_loss_backward", [](R& r) { return loss_backward(r, {1.0}); }},
      {"aten::huber_loss_backward", [](R& r) { return loss_backward(r, {1.0}); }},
      {"aten::binary_cross_entropy", [](R& r) { return cross_entropy(r, false); }},
      {"aten::binary_cross_entropy_backward", [](R& r) { return cross_entropy(r, true); }},
      {"aten::binary_cross_entropy_with_logits", cross_entropy_with_logits},
  };
  return table;
}

}  // namespace antegrad::testing
