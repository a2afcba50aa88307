#include <ATen/ATen.h>
#include <ATen/core/Reduction.h>

#include <algorithm>

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

/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last,
/// padding.
Arguments embedding_bag(R& r) {
  const int64_t rows = r.integer(1, 5), count = r.integer(1, 6), mode = r.integer(0, 2);
  const at::ScalarType dtype = r.floating();
  const at::Tensor offsets = at::zeros({r.integer(1, 4)}, at::kLong);
  const bool last = r.chance(0.3);
  if (last) offsets[-1].fill_(count);
  return {r.tensor({rows, r.integer(1, 3)}, dtype),
          r.indices({count}, rows),
          offsets,
          false,
          mode,
          false,
          mode == 0 ? maybe(r, r.tensor({count}, dtype)) : c10::IValue(),
          last,
          r.chance(0.7) ? int64_t{-1} : r.integer(0, rows - 1)};
}

Arguments embedding_bag_backward(R& r) {
  const Arguments a = embedding_bag(r);
  const at::Tensor weight = a[0].toTensor();
  const at::Tensor by = a[6].isNone() ? at::Tensor() : a[6].toTensor();
  const auto [out, bag, size, most] =
      at::_embedding_bag(weight, a[1].toTensor(), a[2].toTensor(), false, a[4].toInt(), false, by,
                         a[7].toBool(), a[8].toInt());
  return {gradient(r, out), a[1],  a[2], bag,   size, most,
          weight.size(0),   false, a[4], false, a[6], a[8]};
}

Arguments embedding_bag_weights_backward(R& r) {
  Arguments a = embedding_bag(r);
  a[4] = int64_t{0};
  a[6] = at::ones({a[1].toTensor().size(0)}, a[0].toTensor().options());
  const auto [out, bag, size, most] =
      at::_embedding_bag(a[0].toTensor(), a[1].toTensor(), a[2].toTensor(), false, 0, false,
                         a[6].toTensor(), a[7].toBool(), a[8].toInt());
  // The kernel reads the bag of each index.
  const at::Tensor bags = bag.numel() > 0 ? bag : at::zeros_like(a[1].toTensor());
  return {at::ones_like(out), a[0], a[1], a[2], bags, int64_t{0}, a[8]};
}

/// self with one column per class, sometimes several rows, and a target.
Arguments margin_loss(R& r, bool labels) {
  const int64_t rows = r.integer(1, 3), classes = r.integer(1, 4);
  const bool batched = r.chance(0.7);
  const at::Tensor self =
      r.tensor(batched ? Shape{rows, classes} : Shape{classes}, r.pick({at::kFloat, at::kDouble}));
  const Shape target = labels ? self.sizes().vec() : batched ? Shape{rows} : Shape{1};
  if (!labels && !batched && r.chance(0.5)) return {self, at::zeros({}, at::kLong)};
  return {self, labels ? at::full(target, -1, at::kLong) : r.indices(target, classes)};
}

Arguments multi_margin_loss(R& r, bool backward) {
  Arguments a = margin_loss(r, false);
  a.insert(a.end(), {at::Scalar(1), at::Scalar(1), {}, r.integer(0, 2)});
  if (!backward) return a;
  const at::Tensor out =
      at::multi_margin_loss(a[0].toTensor(), a[1].toTensor(), 1, 1, {}, a[5].toInt());
  a.insert(a.begin(), at::ones_like(out));
  return a;
}

Arguments multilabel_margin_loss(R& r, bool backward) {
  Arguments a = margin_loss(r, true);
  a.push_back(r.integer(0, 2));
  if (!backward) return a;
  const auto [out, is_target] =
      at::multilabel_margin_loss_forward(a[0].toTensor(), a[1].toTensor(), a[2].toInt());
  a.insert(a.begin(), at::ones_like(out));
  a.push_back(is_target);
  return a;
}

/// grad, self, noise, lower, upper, training, self_is_result.
Arguments rrelu_backward(R& r) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  return {r.tensor(shape, dtype),
          r.tensor(shape, dtype),
          r.tensor(shape, dtype),
          at::Scalar(0.1),
          at::Scalar(0.3),
          r.chance(0.5),
          false};
}

/// An even number of elements along one dimension.
Arguments glu(R& r) {
  Shape shape = r.shape(1, 4);
  const int64_t dim = r.integer(0, static_cast<int64_t>(shape.size()) - 1);
  shape[dim] *= 2;
  return {r.tensor(shape, r.floating()), dim};
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

/// The oneDNN kernel (2.13) reads out of bounds when the operands broadcast or differ in dtype.
Arguments gelu_backward(R& r) {
  const Shape shape = r.shape();
  const at::ScalarType dtype = r.floating();
  return {r.tensor(shape, dtype), r.tensor(shape, dtype), r.chance(0.5) ? "none" : "tanh"};
}

Arguments glu_backward(R& r) {
  Shape shape = r.shape(1, 4);
  const int64_t dim = r.integer(0, shape.size() - 1);
  const at::ScalarType dtype = r.floating();
  const at::Tensor grad = r.tensor(shape, dtype);
  shape[dim] *= 2;
  return {grad, r.tensor(shape, dtype), dim};
}

/// log_probs (time, batch, class), targets in rows or one after another, and lengths that fit.
struct CtcLoss {
  explicit CtcLoss(R& r) {
    const int64_t time = r.integer(1, 6), batch = r.integer(1, 3), classes = r.integer(2, 4);
    log_probs = r.tensor({time, batch, classes}, r.pick({at::kFloat, at::kDouble}));
    int64_t all = 0;
    for (int64_t i = 0; i < batch; ++i) {
      input_lengths.push_back(r.integer(1, time));
      target_lengths.push_back(r.integer(0, input_lengths.back()));
      all += target_lengths.back();
    }
    const bool rows = r.chance(0.5);
    targets = r.indices(rows ? Shape{batch, time} : Shape{all}, classes - 1) + 1;
  }
  Arguments forward() const {
    return {log_probs, targets, input_lengths, target_lengths, int64_t{0}, false};
  }
  at::Tensor log_probs, targets;
  Shape input_lengths, target_lengths;
};

Arguments ctc_loss(R& r) { return CtcLoss(r).forward(); }

Arguments ctc_loss_backward(R& r, bool tensors) {
  const CtcLoss a(r);
  const auto [loss, alpha] =
      at::_ctc_loss(a.log_probs, a.targets, a.input_lengths, a.target_lengths);
  Arguments all = joined({gradient(r, loss)}, a.forward());
  if (tensors) {
    for (const size_t i : {3, 4}) all[i] = at::tensor(all[i].toIntVector(), at::kLong);
  }
  all.insert(all.begin() + 5, {loss, alpha});
  return all;
}

/// Only on CUDA. cuDNN wants all of the time.
Arguments cudnn_ctc_loss(R& r, bool tensors) {
  CtcLoss a(r);
  std::fill(a.input_lengths.begin(), a.input_lengths.end(), a.log_probs.size(0));
  a.log_probs = a.log_probs.to(at::kFloat);
  int64_t all = 0;
  for (const auto length : a.target_lengths) all += length;
  a.targets = at::ones({all}, at::kInt);
  Arguments arguments = a.forward();
  if (tensors) {
    arguments[1] = a.targets.to(r.device());
    for (const size_t i : {2, 3}) {
      arguments[i] = at::tensor(arguments[i].toIntVector(), at::kInt).to(r.device());
    }
  }
  arguments.insert(arguments.begin() + 5, c10::IValue(false));
  return arguments;
}

}  // namespace

const ArgumentsTable& loss_samples() {
  static const ArgumentsTable table = {
      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", softmax_backward},
      {"aten::_prelu_kernel", [](R& r) { return prelu(r, false); }},
      {"aten::_prelu_kernel_backward", [](R& r) { return prelu(r, true); }},
      {"aten::gelu_backward", gelu_backward},
      {"aten::glu", glu},
      {"aten::glu_backward", glu_backward},
      {"aten::rrelu_with_noise_backward", rrelu_backward},
      {"aten::_embedding_bag", embedding_bag},
      {"aten::_embedding_bag_backward", embedding_bag_backward},
      {"aten::_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
      {"aten::multi_margin_loss", [](R& r) { return multi_margin_loss(r, false); }},
      {"aten::multi_margin_loss_backward", [](R& r) { return multi_margin_loss(r, true); }},
      {"aten::multilabel_margin_loss_forward",
       [](R& r) { return multilabel_margin_loss(r, false); }},
      {"aten::multilabel_margin_loss_backward",
       [](R& r) { return multilabel_margin_loss(r, true); }},
      {"aten::soft_margin_loss_backward", [](R& r) { return loss_backward(r, {}); }},
      {"aten::_ctc_loss", ctc_loss},
      {"aten::_ctc_loss_backward", [](R& r) { return ctc_loss_backward(r, false); }},
      {"aten::_ctc_loss_backward.Tensor", [](R& r) { return ctc_loss_backward(r, true); }},
      {"aten::_cudnn_ctc_loss", [](R& r) { return cudnn_ctc_loss(r, false); }},
      {"aten::_cudnn_ctc_loss.Tensor", [](R& r) { return cudnn_ctc_loss(r, true); }},
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
