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

constexpr Entry kTable[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_dense_backward},

    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
    {"aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits},
    {"aten::huber_loss", huber_loss},
    {"aten::huber_loss_backward", binary_loss_backward},
    {"aten::mse_loss", binary_loss},
    {"aten::mse_loss_backward", binary_loss_backward},
    {"aten::nll_loss2d_backward", nll_loss2d_backward},
    {"aten::nll_loss2d_forward", nll_loss2d_forward},
    {"aten::nll_loss_backward", nll_loss_backward},
    {"aten::nll_loss_forward", nll_loss_forward},
    {"aten::smooth_l1_loss", binary_loss},
    {"aten::smooth_l1_loss_backward", binary_loss_backward},
};

}  // namespace

std::span<const Entry> embedding_loss_family() { return kTable; }

}  // namespace antegrad::shapes
