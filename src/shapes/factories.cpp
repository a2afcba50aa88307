/// \file
/// New tensors: creation, `*_like`, `new_*`, copies, padding and random numbers.

#include <c10/core/DefaultDtype.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "shapes/families.h"
#include "shapes/layout.h"

namespace antegrad::shapes {

namespace {

/// dtype, layout and device of a factory, from argument `i` on. False if not strided.
struct Options {
  Options(const Call& call, size_t i, at::ScalarType dtype = default_dtype(),
          c10::Device device = at::kCPU)
      : dtype(call.dtype(i).value_or(dtype)),
        device(call.is_none(i + 2) ? device : call.arg(i + 2).toDevice()),
        strided(call.is_none(i + 1) || call.arg(i + 1).toLayout() == at::kStrided) {
    // "cuda" means the current device, which is only known when the tensor is created.
    if (!this->device.is_cpu() && !this->device.has_index()) strided = false;
  }
  Options(const Call& call, size_t i, const at::Tensor& self)
      : Options(call, i, self.scalar_type(), self.device()) {}

  at::ScalarType dtype;
  c10::Device device;
  bool strided;
};

std::optional<at::MemoryFormat> memory_format(const Call& call, size_t i) {
  if (call.is_none(i)) return std::nullopt;
  return call.arg(i).toMemoryFormat();
}

bool returns_fresh(Call& call, at::IntArrayRef sizes, const Options& options) {
  const bool valid =
      std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; });
  return valid && options.strided && call.returns(fresh(sizes, options.dtype, options.device));
}

/// Sizes at `Sizes`, options from `First` on.
template <size_t Sizes, size_t First>
bool filled(Call& call) {
  return returns_fresh(call, call.arg(Sizes).toDimVector(), Options(call, First));
}

at::ScalarType dtype_of_number(const at::Scalar& number) {
  if (number.isBoolean()) return at::kBool;
  if (number.isIntegral(/*includeBool=*/false)) return at::kLong;
  if (number.isComplex()) return c10::toComplexType(default_dtype());
  return default_dtype();
}

bool full(Call& call) {
  const Options options(call, 2, dtype_of_number(call.arg(1).toScalar()));
  return returns_fresh(call, call.arg(0).toDimVector(), options);
}

bool empty(Call& call) {
  const Options options(call, 1);
  if (!options.strided) return false;
  const auto format = memory_format(call, 5).value_or(at::MemoryFormat::Contiguous);
  if (format == at::MemoryFormat::Preserve) return false;
  return call.returns(fresh(call.arg(0).toDimVector(), options.dtype, options.device, format));
}

/// Sizes and strides are given. Options are from `First` on, or those of argument 0 if it is a
/// tensor.
bool strided(Call& call, size_t sizes, const Options& options) {
  if (!options.strided) return false;
  const at::DimVector size = call.arg(sizes).toDimVector();
  const at::DimVector stride = call.arg(sizes + 1).toDimVector();
  if (size.size() != stride.size()) return false;
  Spec spec = fresh(size, options.dtype, options.device);
  spec.strides.assign(stride.begin(), stride.end());
  return call.returns(std::move(spec));
}

bool empty_strided(Call& call) { return strided(call, 0, Options(call, 2)); }

bool new_empty_strided(Call& call) { return strided(call, 1, Options(call, 3, call.tensor(0))); }

template <size_t First>
bool new_filled(Call& call) {
  return returns_fresh(call, call.arg(1).toDimVector(), Options(call, First, call.tensor(0)));
}

/// Options from `First` on, memory format last.
template <size_t First>
bool like_filled(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const Options options(call, First, self);
  if (!options.strided) return false;
  Spec spec = allocated_like(self, memory_format(call, call.size() - 1));
  spec.dtype = options.dtype;
  spec.device = options.device;
  return call.returns(std::move(spec));
}

bool scalar_tensor(Call& call) { return returns_fresh(call, {}, Options(call, 1)); }

template <size_t Columns, size_t First>
bool eye(Call& call) {
  return returns_fresh(call, {call.integer(0), call.integer(Columns)}, Options(call, First));
}

/// [start, end) in steps. The count is computed as in libtorch: exactly for integers, otherwise in
/// double. The options follow the limits and the step.
template <size_t First>
bool arange(Call& call) {
  const at::Scalar start = First > 1 ? call.arg(0).toScalar() : 0;
  const at::Scalar end = call.arg(First > 1 ? 1 : 0).toScalar();
  const at::Scalar step = First > 2 ? call.arg(2).toScalar() : 1;
  const bool integers = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const Options options(call, First, integers ? at::kLong : default_dtype());
  double count = 0;
  if (options.dtype == at::kLong) {
    const int64_t from = start.to<int64_t>(), to = end.to<int64_t>(), by = step.to<int64_t>();
    if (by == 0) return false;
    count = std::ceil(static_cast<double>(to - from) / static_cast<double>(by));
  } else {
    // Narrow integers and bool wrap their limits first. This is rare and left to the operator.
    if (!c10::isFloatingType(options.dtype) && options.dtype != at::kInt) return false;
    const double from = start.to<double>(), to = end.to<double>(), by = step.to<double>();
    if (by == 0 || !std::isfinite(from) || !std::isfinite(to)) return false;
    count = std::ceil((to - from) / by);
  }
  return count >= 0 && returns_fresh(call, {static_cast<int64_t>(count)}, options);
}

bool triangle(Call& call) { return call.tensor(0).dim() >= 2 && contiguous_first(call); }

bool native_dropout(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const bool training = call.is_none(2) || call.boolean(2);
  // Otherwise the operator may return the input itself.
  if (!training || self.numel() == 0 || !self.is_floating_point()) return false;
  if (self.unsafeGetTensorImpl()->is_wrapped_number()) return false;
  const Spec mask = with_dtype(like(self), at::kBool);
  Spec out = like(self);
  if (self.is_cpu()) iterator_layout({Geometry(self), Geometry(mask)}, out);  // self.mul(mask)
  return call.returns(std::move(out), mask);
}

/// The result is contiguous. The noise is written to a copy of the argument.
bool rrelu_with_noise(Call& call) {
  const at::Tensor& self = call.tensor(0);
  return call.returns(contiguous(self, self.sizes()), like(call.tensor(1)));
}

bool native_dropout_backward(Call& call) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& mask = call.tensor(1);
  if (!grad.is_floating_point() || !mask.sizes().equals(grad.sizes())) return false;
  if (!grad.is_cpu()) return call.returns(allocated_like(grad, grad.suggest_memory_format()));
  // (grad * mask) * scale
  if (!elementwise<Promotion::kCommon, 0, 1>(call)) return false;
  Spec& out = call.outputs().back();
  iterator_layout({Geometry(out), Geometry()}, out);
  return true;
}

bool clone(Call& call) {
  return call.returns(allocated_like(call.tensor(0), memory_format(call, 1)));
}

/// `copy` preserves strides and offset of self, unless its elements overlap.
bool copy(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.numel() == 0 && self.storage_offset() != 0) return false;  // depends on the storage
  return exact_like<0>(call);
}

bool randperm(Call& call) {
  return returns_fresh(call, {call.integer(0)}, Options(call, 1, at::kLong));
}

/// Limits in tensors, steps at 2, options from `First` on.
template <size_t First>
bool spaced(Call& call) {
  for (const size_t i : {0, 1}) {
    const c10::IValue& limit = call.arg(i);
    if (limit.isTensor() ? limit.toTensor().is_complex() : limit.toScalar().isComplex()) {
      return false;
    }
  }
  return returns_fresh(call, {call.integer(2)}, Options(call, First));
}

/// Rows and columns of the elements on and below a diagonal of a matrix, or on and above it.
template <bool Lower>
bool triangle_indices(Call& call) {
  const int64_t rows = call.integer(0), columns = call.integer(1), offset = call.integer(2);
  if (rows < 0 || columns < 0) return false;
  int64_t below = 0;
  for (int64_t row = 0; row < rows; ++row) {
    below += std::clamp<int64_t>(row + offset + (Lower ? 1 : 0), 0, columns);
  }
  return returns_fresh(call, {2, Lower ? below : rows * columns - below},
                       Options(call, 3, at::kLong));
}

bool empty_permuted(Call& call) {
  const at::DimVector sizes = call.arg(0).toDimVector(), layout = call.arg(1).toDimVector();
  if (layout.size() != sizes.size()) return false;
  Dims physical;
  for (const int64_t dim : layout) {
    if (dim < 0 || dim >= static_cast<int64_t>(sizes.size())) return false;
    physical.push_back(sizes[dim]);
  }
  if (!returns_fresh(call, sizes, Options(call, 2))) return false;
  const Dims strides = shapes::contiguous_strides(at::IntArrayRef(physical));
  for (size_t i = 0; i < layout.size(); ++i) call.outputs().back().strides[layout[i]] = strides[i];
  return true;
}

bool normal(Call& call) {
  const at::Tensor& mean = call.tensor(0);
  const at::Tensor& deviation = call.tensor(1);
  if (mean.scalar_type() != deviation.scalar_type()) return false;
  return call.returns(contiguous(mean, broadcast(mean.sizes(), deviation.sizes())));
}

bool multinomial(Call& call) {
  const at::Tensor& self = call.tensor(0);
  if (self.dim() != 1 && self.dim() != 2) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes.back() = call.integer(1);
  return call.returns(fresh(sizes, at::kLong, self.device()));
}

/// Zeros, with argument 0 on a diagonal of two new dimensions.
bool diag_embed(Call& call) {
  const at::Tensor& self = call.tensor(0);
  int64_t a = call.integer(2), b = call.integer(3);
  const int64_t rank = self.dim() + 1;
  if (self.dim() == 0 || !wrap_dim(a, rank) || !wrap_dim(b, rank) || a == b) return false;
  const int64_t length = self.size(-1) + std::abs(call.integer(1));
  Dims sizes(self.sizes().begin(), self.sizes().end() - 1);
  sizes.insert(sizes.begin() + std::min(a, b), length);
  sizes.insert(sizes.begin() + std::max(a, b), length);
  return call.returns(contiguous(self, sizes));
}

bool constant_pad_nd(Call& call) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector pad = call.arg(1).toDimVector();
  if (pad.size() % 2 != 0 || pad.size() / 2 > static_cast<size_t>(self.dim())) return false;
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t& size = sizes[sizes.size() - 1 - i];
    size += pad[2 * i] + pad[2 * i + 1];
    if (size < 0) return false;
  }
  const bool all_negative = std::all_of(pad.begin(), pad.end(), [](int64_t p) { return p <= 0; });
  if (all_negative) return false;  // a clone of a slice has the layout of the slice
  return call.returns(
      fresh(sizes, self.scalar_type(), self.device(), self.suggest_memory_format()));
}

}  // namespace

constexpr Family factory_family = {
    // From sizes.
    {"aten::arange", arange<1>},
    {"aten::arange.start", arange<2>},
    {"aten::arange.start_step", arange<3>},
    {"aten::empty.memory_format", empty},
    {"aten::empty_permuted", empty_permuted},
    {"aten::empty_strided", empty_strided},
    {"aten::eye", eye<0, 1>},
    {"aten::eye.m", eye<1, 2>},
    {"aten::full", full},
    {"aten::linspace", spaced<3>},
    {"aten::linspace.Scalar_Tensor", spaced<3>},
    {"aten::linspace.Tensor_Scalar", spaced<3>},
    {"aten::linspace.Tensor_Tensor", spaced<3>},
    {"aten::logspace", spaced<4>},
    {"aten::logspace.Scalar_Tensor", spaced<4>},
    {"aten::logspace.Tensor_Scalar", spaced<4>},
    {"aten::logspace.Tensor_Tensor", spaced<4>},
    {"aten::normal.float_float", filled<2, 4>},
    {"aten::ones", filled<0, 1>},
    {"aten::rand", filled<0, 1>},
    {"aten::rand.generator", filled<0, 2>},
    {"aten::randint", filled<1, 2>},
    {"aten::randint.low", filled<2, 3>},
    {"aten::randn", filled<0, 1>},
    {"aten::randn.generator", filled<0, 2>},
    {"aten::randperm", randperm},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::tril_indices", triangle_indices<true>},
    {"aten::triu_indices", triangle_indices<false>},
    {"aten::zeros", filled<0, 1>},
    // From another tensor.
    {"aten::empty_like", like_filled<1>},
    {"aten::full_like", like_filled<2>},
    {"aten::new_empty", new_filled<2>},
    {"aten::new_empty_strided", new_empty_strided},
    {"aten::new_full", new_filled<3>},
    {"aten::new_ones", new_filled<2>},
    {"aten::new_zeros", new_filled<2>},
    {"aten::ones_like", like_filled<1>},
    {"aten::rand_like", like_filled<1>},
    {"aten::randint_like", like_filled<2>},
    {"aten::randint_like.low_dtype", like_filled<3>},
    {"aten::randn_like", like_filled<1>},
    {"aten::zeros_like", like_filled<1>},
    // Copies.
    {"aten::_to_copy", like_filled<1>},
    {"aten::clone", clone},
    {"aten::constant_pad_nd", constant_pad_nd},
    {"aten::copy", copy},
    {"aten::diag_embed", diag_embed},
    {"aten::fill.Scalar", like_first},
    {"aten::fill.Tensor", like_first},
    {"aten::lift_fresh_copy", contiguous_first},
    {"aten::tril", triangle},
    {"aten::triu", triangle},
    {"aten::zero", like_first},
    // Random.
    {"aten::bernoulli", contiguous_first},
    {"aten::bernoulli.p", contiguous_first},
    {"aten::cauchy", like_first},
    {"aten::exponential", like_first},
    {"aten::geometric", like_first},
    {"aten::log_normal", like_first},
    {"aten::multinomial", multinomial},
    {"aten::native_dropout", native_dropout},
    {"aten::native_dropout_backward", native_dropout_backward},
    {"aten::normal.Tensor_Tensor", normal},
    {"aten::normal.Tensor_float", contiguous_first},
    {"aten::normal.float_Tensor", contiguous_second},
    {"aten::poisson", contiguous_first},
    {"aten::random", like_first},
    {"aten::random.from", like_first},
    {"aten::random.to", like_first},
    {"aten::rrelu_with_noise_functional", rrelu_with_noise},
    {"aten::normal_functional", like_first},
    {"aten::uniform", like_first},
};

}  // namespace antegrad::shapes
