/// \file
/// Embedding lookups and loss functions.

#include <ATen/core/Reduction.h>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

bool returns_scalar(Call& call, const at::Tensor& like, at::ScalarType dtype) {
  call.returns(fresh({}, dtype, like.device()));
  return true;
}

bool returns_contiguous(Call& call, const at::Tensor& like) {
  call.returns(contiguous(like, like.sizes()));
  return true;
}

bool embedding(Call& call) {
  const at::Tensor& weight = call.arg(0).toTensor();
  const at::Tensor& indices = call.arg(1).toTensor();
  if (weight.dim() != 2) return false;
  Dims sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  call.returns(contiguous(weight, sizes));
  return true;
}

bool embedding_dense_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  if (grad.dim() == 0) return false;
  call.returns(contiguous(grad, {call.integer(2), grad.size(-1)}));
  return true;
}

/// Sums of rows of a matrix, by bags that start at the offsets; on the CPU.
bool embedding_bag(Call& call) {
  const at::Tensor& weight = call.arg(0).toTensor();
  const at::Tensor& indices = call.arg(1).toTensor();
  const at::Tensor& offsets = call.arg(2).toTensor();
  const at::Tensor by = call.tensor(6);  // per_sample_weights
  if (weight.dim() != 2 || indices.dim() != 1 || offsets.dim() != 1) return false;
  if (indices.numel() == 0 || indices.scalar_type() != offsets.scalar_type()) return false;
  enum { kSum, kMean, kMax };
  const int64_t mode = call.integer(4), padding = call.integer(8);
  const int64_t bags = offsets.size(0) - (call.boolean(7) ? 1 : 0);
  if (bags <= 0 || padding >= weight.size(0)) return false;
  // Sums of dense rows have a kernel that needs no list of bags.
  const bool plain = mode == kSum && weight.scalar_type() != at::kDouble && weight.stride(1) == 1 &&
                     padding < 0 && (!by.defined() || by.stride(0) == 1);
  call.returns(contiguous(weight, {bags, weight.size(1)}));
  call.returns(contiguous(indices, plain ? Dims{0} : Dims{indices.size(0)}));
  call.returns(contiguous(indices, {bags}));
  call.returns(contiguous(indices, mode == kMax ? Dims{bags, weight.size(1)} : Dims{bags}));
  return true;
}

bool embedding_bag_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  if (grad.dim() != 2 || call.boolean(9)) return false;  // a sparse gradient
  call.returns(contiguous(grad, {call.integer(6), grad.size(1)}));
  return true;
}

bool embedding_bag_weights_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  const at::Tensor& indices = call.arg(2).toTensor();
  if (indices.dim() != 1) return false;
  call.returns(contiguous(grad, indices.sizes()));
  return true;
}

bool nll_loss_forward(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::Tensor& target = call.arg(1).toTensor();
  if (self.dim() < 1 || self.dim() > 2 || target.dim() > 1) return false;
  if (self.dim() == 2 && (target.dim() != 1 || target.size(0) != self.size(0))) return false;
  const bool reduced = call.integer(3) != at::Reduction::None || self.dim() == 1;
  call.returns(reduced ? contiguous(self, {}) : contiguous(self, {self.size(0)}));
  call.returns(contiguous(self, {}));
  return true;
}

bool nll_loss_backward(Call& call) { return returns_contiguous(call, call.arg(1).toTensor()); }

bool nll_loss2d_forward(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  if (self.dim() != 4) return false;
  const bool reduced = call.integer(3) != at::Reduction::None;
  call.returns(reduced ? contiguous(self, {})
                       : contiguous(self, {self.size(0), self.size(2), self.size(3)}));
  call.returns(contiguous(self, {}));
  return true;
}

bool nll_loss2d_backward(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  if (self.dim() != 4) return false;
  call.returns(like(self));
  return true;
}

/// Elementwise over (0, 1), then reduced to a scalar when argument 2 says so.
bool binary_loss(Call& call) {
  Elementwise operands;
  operands.add(call, 0);
  operands.add(call, 1);
  if (!operands.returns(call, Promotion::kCommon)) return false;
  if (call.integer(2) == at::Reduction::None) return true;
  Spec& out = call.outputs().back();
  out.sizes.clear();
  out.strides.clear();
  return true;
}

/// Written into an empty_like of argument 0, which argument 1 must not outgrow.
bool huber_loss(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::Tensor& target = call.arg(1).toTensor();
  if (!at::IntArrayRef(broadcast(self.sizes(), target.sizes())).equals(self.sizes())) return false;
  if (call.integer(2) != at::Reduction::None) {
    return returns_scalar(call, self, self.scalar_type());
  }
  call.returns(like(self));
  return true;
}

/// A contiguous gradient of argument 1, which the other arguments must not outgrow.
bool binary_loss_backward(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  for (const size_t i : {0, 2}) {
    const at::Tensor& other = call.arg(i).toTensor();
    if (other.scalar_type() != self.scalar_type()) return false;
    if (!at::IntArrayRef(broadcast(self.sizes(), other.sizes())).equals(self.sizes())) return false;
  }
  return returns_contiguous(call, self);
}

/// log1p(exp(-self * target)), computed in place of -self.
bool soft_margin_loss(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::Tensor& target = call.arg(1).toTensor();
  if (!self.is_floating_point() || target.scalar_type() != self.scalar_type()) return false;
  if (!at::IntArrayRef(broadcast(self.sizes(), target.sizes())).equals(self.sizes())) return false;
  if (call.integer(2) != at::Reduction::None) return returns_scalar(call, self, self.scalar_type());
  Elementwise negated;
  negated.add(self);
  return negated.returns(call, Promotion::kSame);
}

/// target * exp(-target * self), then operators in place.
bool soft_margin_loss_backward(Call& call) {
  const at::Tensor& grad = call.arg(0).toTensor();
  const at::Tensor& self = call.arg(1).toTensor();
  const at::Tensor& target = call.arg(2).toTensor();
  if (!self.is_floating_point() || target.scalar_type() != self.scalar_type() ||
      grad.scalar_type() != self.scalar_type() || !target.sizes().equals(self.sizes())) {
    return false;
  }
  if (!at::IntArrayRef(broadcast(self.sizes(), grad.sizes())).equals(self.sizes())) return false;
  Spec out = contiguous(self, self.sizes());
  const Geometry negated[] = {Geometry(target)};
  iterator_layout(negated, out);
  const Dims sizes = out.sizes, first = out.strides;
  const Geometry product[] = {Geometry(sizes, first), Geometry(self)};
  iterator_layout(product, out);
  const Dims second = out.strides;
  const Geometry exponential[] = {Geometry(sizes, second)};
  iterator_layout(exponential, out);
  const Dims third = out.strides;
  const Geometry result[] = {Geometry(target), Geometry(sizes, third)};
  iterator_layout(result, out);
  call.returns(std::move(out));
  return true;
}

/// A number for each row, or one for all.
bool returns_rows(Call& call, const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  if (self.numel() == 0 || self.dim() > 2) return false;
  const bool rows = reduction == at::Reduction::None && target.dim() > 0;
  call.returns(contiguous(self, rows ? Dims{self.dim() == 2 ? self.size(0) : 1} : Dims{}));
  return true;
}

bool multi_margin_loss(Call& call) {
  return returns_rows(call, call.arg(0).toTensor(), call.arg(1).toTensor(), call.integer(5));
}

bool multilabel_margin_loss_forward(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  const at::Tensor& target = call.arg(1).toTensor();
  if (self.numel() == 0 || self.dim() > 2) return false;
  const bool rows = call.integer(2) == at::Reduction::None && target.dim() > 1;
  call.returns(contiguous(self, rows ? Dims{self.size(0)} : Dims{}));
  call.returns(contiguous(self, target.sizes()));
  return true;
}

bool binary_cross_entropy(Call& call) {
  const at::Tensor& self = call.arg(0).toTensor();
  if (!call.arg(1).toTensor().sizes().equals(self.sizes())) return false;
  if (call.integer(3) != at::Reduction::None) {
    return returns_scalar(call, self, self.scalar_type());
  }
  call.returns(like(self));
  return true;
}

bool binary_cross_entropy_backward(Call& call) {
  const at::Tensor& self = call.arg(1).toTensor();
  if (!call.arg(2).toTensor().sizes().equals(self.sizes())) return false;
  call.returns(like(self));
  return true;
}

/// Built as an empty_like(target) and in-place operators on it: target's dtype and layout.
bool binary_cross_entropy_with_logits(Call& call) {
  const at::Tensor& target = call.arg(1).toTensor();
  if (!target.is_floating_point()) return false;
  for (const size_t i : {0, 2, 3}) {
    if (call.is_none(i)) continue;
    const at::Tensor& other = call.arg(i).toTensor();
    if (!at::IntArrayRef(broadcast(target.sizes(), other.sizes())).equals(target.sizes())) {
      return false;
    }
  }
  if (call.integer(4) != at::Reduction::None) {
    return returns_scalar(call, target, target.scalar_type());
  }
  call.returns(like(target));
  return true;
}

constexpr Entry kEmbeddingLossTable[] = {
    {"aten::embedding", embedding},
    {"aten::_embedding_bag", on_cpu<embedding_bag>},
    {"aten::_embedding_bag_backward", on_cpu<embedding_bag_backward>},
    {"aten::_embedding_bag_per_sample_weights_backward", on_cpu<embedding_bag_weights_backward>},
    {"aten::embedding_dense_backward", embedding_dense_backward},

    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::huber_loss", huber_loss},
    {"aten::huber_loss_backward", binary_loss_backward},
    {"aten::mse_loss", binary_loss},
    {"aten::mse_loss_backward", binary_loss_backward},
    {"aten::multi_margin_loss", on_cpu<multi_margin_loss>},
    {"aten::multi_margin_loss_backward", on_cpu<contiguous_like<1>>},
    {"aten::multilabel_margin_loss_backward", on_cpu<contiguous_like<1>>},
    {"aten::multilabel_margin_loss_forward", on_cpu<multilabel_margin_loss_forward>},
    {"aten::nll_loss2d_backward", nll_loss2d_backward},
    {"aten::nll_loss2d_forward", nll_loss2d_forward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::smooth_l1_loss", binary_loss},
    {"aten::smooth_l1_loss_backward", binary_loss_backward},
    {"aten::soft_margin_loss", soft_margin_loss},
    {"aten::soft_margin_loss_backward", soft_margin_loss_backward},
};

}  // namespace

std::span<const Entry> embedding_loss_family() { return kEmbeddingLossTable; }

}  // namespace antegrad::shapes
