/// \file
/// Embedding lookups and loss functions.

#include <ATen/core/Reduction.h>

#include "shapes/elementwise_rules.h"
#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// `Rule`, then reduced to a scalar if argument `Reduction` says so.
template <Function Rule, size_t Reduction>
bool reduced(Call& call) {
  if (!Rule(call)) return false;
  Spec& out = call.outputs().back();
  if (call.integer(Reduction) != at::Reduction::None) out = fresh({}, out.dtype, out.device);
  return true;
}

bool embedding(Call& call) {
  const at::Tensor& weight = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  if (weight.dim() != 2) return false;
  Dims sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  return call.returns(contiguous(weight, sizes));
}

bool embedding_dense_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  if (grad.dim() == 0) return false;
  return call.returns(contiguous(grad, {call.integer(2), grad.size(-1)}));
}

/// Sums rows of a matrix by bags, which start at the offsets. CPU only.
bool embedding_bag(Call& call) {
  const at::Tensor& weight = call.tensor(0);
  const at::Tensor& indices = call.tensor(1);
  const at::Tensor& offsets = call.tensor(2);
  const at::Tensor& by = call.tensor(6);  // per_sample_weights
  if (weight.dim() != 2 || indices.dim() != 1 || offsets.dim() != 1) return false;
  if (indices.numel() == 0 || indices.scalar_type() != offsets.scalar_type()) return false;
  enum { kSum, kMean, kMax };
  const int64_t mode = call.integer(4), padding = call.integer(8);
  const int64_t bags = offsets.size(0) - (call.boolean(7) ? 1 : 0);
  if (bags <= 0 || padding >= weight.size(0)) return false;
  // The kernel for sums of dense rows needs no list of bags.
  const bool plain = mode == kSum && weight.scalar_type() != at::kDouble && weight.stride(1) == 1 &&
                     padding < 0 && (!by.defined() || by.stride(0) == 1);
  return call.returns(contiguous(weight, {bags, weight.size(1)}),
                      contiguous(indices, plain ? Dims{0} : Dims{indices.size(0)}),
                      contiguous(indices, {bags}),
                      contiguous(indices, mode == kMax ? Dims{bags, weight.size(1)} : Dims{bags}));
}

bool embedding_bag_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  if (grad.dim() != 2 || call.boolean(9)) return false;  // a sparse gradient
  return call.returns(contiguous(grad, {call.integer(6), grad.size(1)}));
}

bool embedding_bag_weights_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& indices = call.tensor(2);
  if (indices.dim() != 1) return false;
  return call.returns(contiguous(grad, indices.sizes()));
}

bool nll_loss_forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  if (self.dim() < 1 || self.dim() > 2 || target.dim() > 1) return false;
  if (self.dim() == 2 && (target.dim() != 1 || target.size(0) != self.size(0))) return false;
  const bool reduced = call.integer(3) != at::Reduction::None || self.dim() == 1;
  return call.returns(reduced ? contiguous(self, {}) : contiguous(self, {self.size(0)}),
                      contiguous(self, {}));
}

bool nll_loss2d_forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.dim() != 4) return false;
  const bool reduced = call.integer(3) != at::Reduction::None;
  return call.returns(
      reduced ? contiguous(self, {}) : contiguous(self, {self.size(0), self.size(2), self.size(3)}),
      contiguous(self, {}));
}

bool nll_loss2d_backward(Call& call) { return call.tensor(1).dim() == 4 && like_of<1>(call); }

/// Written into an empty_like of argument 0. Argument 1 must not broadcast it to a larger size.
bool huber_loss(Call& call) { return fits(call.tensor(1), call.tensor(0)) && like_first(call); }

/// A contiguous gradient of argument 1. The other arguments must not broadcast it to a larger size.
bool binary_loss_backward(Call& call) {
  const at::Tensor& self = call.tensor(1);
  for (const size_t i : {0, 2}) {
    const at::Tensor& other = call.tensor(i);
    if (other.scalar_type() != self.scalar_type() || !fits(other, self)) return false;
  }
  return contiguous_second(call);
}

/// log1p(exp(-self * target)), computed in place of -self.
bool soft_margin_loss(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  return self.is_floating_point() && target.scalar_type() == self.scalar_type() &&
         fits(target, self) && elementwise<Promotion::kSame, 0>(call);
}

/// target * exp(-target * self), then operators in place.
bool soft_margin_loss_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  const at::Tensor& target = call.tensor(2);
  if (!self.is_floating_point() || target.scalar_type() != self.scalar_type() ||
      grad.scalar_type() != self.scalar_type() || !target.sizes().equals(self.sizes())) {
    return false;
  }
  if (!fits(grad, self)) return false;
  Spec out = contiguous(self, self.sizes());
  iterator_layout({Geometry(target)}, out);                 // negated
  iterator_layout({Geometry(out), Geometry(self)}, out);    // product
  iterator_layout({Geometry(out)}, out);                    // exponential
  iterator_layout({Geometry(target), Geometry(out)}, out);  // result
  return call.returns(std::move(out));
}

/// One number per row, or one in total.
bool multi_margin_loss(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0 || self.dim() > 2) return false;
  const bool rows = call.integer(5) == at::Reduction::None && call.tensor(1).dim() > 0;
  return call.returns(contiguous(self, rows ? Dims{self.dim() == 2 ? self.size(0) : 1} : Dims{}));
}

bool multilabel_margin_loss_forward(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::Tensor& target = call.tensor(1);
  if (self.numel() == 0 || self.dim() > 2) return false;
  const bool rows = call.integer(2) == at::Reduction::None && target.dim() > 1;
  return call.returns(contiguous(self, rows ? Dims{self.size(0)} : Dims{}),
                      contiguous(self, target.sizes()));
}

/// The layout of argument `Self` with the sizes of argument `Other`.
template <size_t Self, size_t Other>
bool like_of_equals(Call& call) {
  return call.tensor(Other).sizes().equals(call.tensor(Self).sizes()) && like_of<Self>(call);
}

/// Computed in place on an empty_like(target): dtype and layout of the target.
bool binary_cross_entropy_with_logits(Call& call) {
  const at::Tensor& target = call.tensor(1);
  if (!target.is_floating_point()) return false;
  for (const size_t i : {0, 2, 3}) {
    if (!call.is_none(i) && !fits(call.tensor(i), target)) return false;
  }
  return like_of<1>(call);
}

/// log_probs (time, batch, class), …: losses (batch), and the logarithms of alpha, which have as
/// many columns as the longest target and the blanks around it need.
bool ctc_loss(Call& call) {
  const at::Tensor& log_probs = call.tensor(0);
  if (log_probs.dim() != 3) return false;
  int64_t longest = 0;
  for (const int64_t length : call.arg(3).toIntVector()) longest = std::max(longest, length);
  const int64_t batch = log_probs.size(1);
  return call.returns(contiguous(log_probs, {batch}),
                      contiguous(log_probs, {batch, log_probs.size(0), 2 * longest + 1}));
}

/// Losses, and gradients of a sum of them.
bool cudnn_ctc_loss(Call& call) {
  const at::Tensor& log_probs = call.tensor(0);
  if (log_probs.dim() != 3) return false;
  return call.returns(contiguous(log_probs, {log_probs.size(1)}),
                      contiguous(log_probs, log_probs.sizes()));
}

}  // namespace

constexpr Family embedding_loss_family = {
    {"aten::embedding", embedding},
    {"aten::_embedding_bag", on_cpu<embedding_bag>},
    {"aten::_embedding_bag_backward", on_cpu<embedding_bag_backward>},
    {"aten::_embedding_bag_per_sample_weights_backward", on_cpu<embedding_bag_weights_backward>},
    {"aten::embedding_dense_backward", embedding_dense_backward},

    {"aten::binary_cross_entropy", reduced<like_of_equals<0, 1>, 3>},
    {"aten::binary_cross_entropy_backward", like_of_equals<1, 2>},
    {"aten::binary_cross_entropy_with_logits", reduced<binary_cross_entropy_with_logits, 4>},
    {"aten::_ctc_loss", ctc_loss},
    {"aten::_ctc_loss_backward", contiguous_second},
    {"aten::_ctc_loss_backward.Tensor", contiguous_second},
    {"aten::_cudnn_ctc_loss", cudnn_ctc_loss},
    {"aten::_cudnn_ctc_loss.Tensor", cudnn_ctc_loss},
    {"aten::huber_loss", reduced<huber_loss, 2>},
    {"aten::huber_loss_backward", binary_loss_backward},
    {"aten::mse_loss", reduced<binary, 2>},
    {"aten::mse_loss_backward", binary_loss_backward},
    {"aten::multi_margin_loss", on_cpu<multi_margin_loss>},
    {"aten::multi_margin_loss_backward", on_cpu<contiguous_second>},
    {"aten::multilabel_margin_loss_backward", on_cpu<contiguous_second>},
    {"aten::multilabel_margin_loss_forward", on_cpu<multilabel_margin_loss_forward>},
    {"aten::nll_loss2d_backward", nll_loss2d_backward},
    {"aten::nll_loss2d_forward", nll_loss2d_forward},
    {"aten::nll_loss_backward", contiguous_second},
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::smooth_l1_loss", reduced<binary, 2>},
    {"aten::smooth_l1_loss_backward", binary_loss_backward},
    {"aten::soft_margin_loss", reduced<soft_margin_loss, 2>},
    {"aten::soft_margin_loss_backward", soft_margin_loss_backward},
};

}  // namespace antegrad::shapes
