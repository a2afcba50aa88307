#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS  // ExpandUtils.h would pull in every operator
#endif
#include "shapes/layout.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace antegrad::shapes {

namespace {

bool is_wrapped(const at::Tensor& t) { return t.unsafeGetTensorImpl()->is_wrapped_number(); }

Dims dims(at::IntArrayRef values) { return Dims(values.begin(), values.end()); }

/// Strides of at::empty in this format. Only in contiguous strides, sizes of 0 count as 1.
Dims strides_of(at::IntArrayRef sizes, at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::ChannelsLast:
      TORCH_CHECK(sizes.size() == 4, "required rank 4 tensor to use channels_last format");
      return dims(c10::get_channels_last_strides_2d(sizes));
    case at::MemoryFormat::ChannelsLast3d:
      TORCH_CHECK(sizes.size() == 5, "required rank 5 tensor to use channels_last_3d format");
      return dims(c10::get_channels_last_strides_3d(sizes));
    default: return shapes::contiguous_strides(sizes);
  }
}

/// Strides of a copy of `t` with preserved layout.
Dims preserved_strides(const at::Tensor& t) {
  if (t.is_non_overlapping_and_dense()) return dims(t.strides());
  return dims(at::infer_dense_strides(t.sizes(), t.strides()));
}

/// Whether these are `expected` where it matters: dimensions of size 1 may have any stride.
bool matches(const Geometry& g, const Dims& expected) {
  for (size_t i = 0; i < g.sizes.size(); ++i) {
    if (g.sizes[i] != 1 && g.strides[i] != expected[i]) return false;
  }
  return true;
}

/// 1: iterate `a` outside `b`; -1: inside; 0: undetermined.
int compare_dims(size_t a, size_t b, at::IntArrayRef shape, std::span<const Dims> strides) {
  for (const Dims& s : strides) {
    if (s[a] == 0 || s[b] == 0) continue;
    if (s[a] < s[b]) return -1;
    if (s[a] > s[b] || shape[a] > shape[b]) return 1;
  }
  return 0;
}

/// TensorIteratorBase::fast_set_up: all operands have the same shape and the same simple layout.
bool fast_layout(std::span<const Geometry> operands, Spec& out) {
  const Geometry& first = operands[0];
  bool contiguous = true, channels_last = true, dense = true;
  for (const Geometry& g : operands) {
    if (!g.sizes.equals(first.sizes)) return false;
    contiguous = contiguous && g.contiguous;
    channels_last = channels_last && g.channels_last;
    dense = dense && g.dense && g.strides.equals(first.strides);
  }
  if (!contiguous && !channels_last && !dense) return false;
  Dims strides = contiguous      ? strides_of(first.sizes, at::MemoryFormat::Contiguous)
                 : channels_last ? strides_of(first.sizes, at::MemoryFormat::ChannelsLast)
                                 : dims(first.strides);
  out.sizes = dims(first.sizes);
  out.strides = std::move(strides);
  return true;
}

}  // namespace

Geometry::Geometry(const at::Tensor& tensor)
    : sizes(tensor.sizes()),
      strides(tensor.strides()),
      contiguous(tensor.is_contiguous()),
      channels_last(tensor.is_contiguous(at::MemoryFormat::ChannelsLast)),
      dense(tensor.is_non_overlapping_and_dense()) {}

Geometry::Geometry(at::IntArrayRef sizes, at::IntArrayRef strides)
    : sizes(sizes), strides(strides), dense(torch_compat::is_dense(sizes, strides)) {
  const bool empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  contiguous = empty || matches(*this, shapes::contiguous_strides(sizes));
  channels_last =
      sizes.size() == 4 && matches(*this, strides_of(sizes, at::MemoryFormat::ChannelsLast));
}

at::MemoryFormat suggest_format(at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (sizes.size() == 4 && c10::is_channels_last_strides_2d(sizes, strides)) {
    return at::MemoryFormat::ChannelsLast;
  }
  if (sizes.size() == 5 && c10::is_channels_last_strides_3d(sizes, strides)) {
    return at::MemoryFormat::ChannelsLast3d;
  }
  return at::MemoryFormat::Contiguous;
}

Spec contiguous(const at::Tensor& like, at::IntArrayRef sizes) {
  return fresh(sizes, like.scalar_type(), like.device());
}

Spec like(const at::Tensor& like) { return allocated_like(like); }

Spec integer(int64_t value) { return {{}, value}; }

Spec spec_of(const at::Tensor& tensor) { return {torch_compat::TensorMetadata::of(tensor)}; }

Spec undefined() { return {{.defined = false}}; }

std::vector<Spec> specs_of(at::ArrayRef<c10::IValue> returned) {
  std::vector<Spec> specs;
  const auto add = [&](const at::Tensor& t) {
    specs.push_back({torch_compat::TensorMetadata::of(t)});
  };
  for (const auto& value : returned) {
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorList()) add(t);
    } else if (value.isInt()) {
      specs.push_back(integer(value.toInt()));
    } else if (value.isTensor() || value.isNone()) {
      add(value.isNone() ? at::Tensor() : value.toTensor());
    }
  }
  return specs;
}

Spec fresh(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
           at::MemoryFormat format) {
  return {{.dtype = dtype,
           .device = device,
           .sizes = dims(sizes),
           .strides = strides_of(sizes, format)}};
}

Spec in_format_of(const at::Tensor& self, at::IntArrayRef sizes) {
  return fresh(sizes, self.scalar_type(), self.device(),
               suggest_format(self.sizes(), self.strides()));
}

Spec allocated_like(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  const at::MemoryFormat wanted = format.value_or(at::MemoryFormat::Preserve);
  if (wanted != at::MemoryFormat::Preserve) {
    return fresh(self.sizes(), self.scalar_type(), self.device(), wanted);
  }
  return {{.dtype = self.scalar_type(),
           .device = self.device(),
           .sizes = dims(self.sizes()),
           .strides = preserved_strides(self)}};
}

Spec with_dtype(Spec spec, at::ScalarType dtype) {
  spec.dtype = dtype;
  return spec;
}

Spec view_of(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
             int64_t offset) {
  return {{.dtype = self.scalar_type(),
           .device = self.device(),
           .sizes = dims(sizes),
           .strides = dims(strides),
           .offset = offset}};
}

at::ScalarType accumulate_type(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

Dims per_dimension(const Call& call, size_t i, size_t count) {
  const Dims given = call.arg(i).toDimVector();
  return given.size() == 1 ? Dims(count, given[0]) : given;
}

bool mask(const Call& call, size_t i, size_t bit) { return call.arg(i).toListRef()[bit].toBool(); }

bool wrap_dim(int64_t& dim, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  if (dim < -range || dim >= range) return false;
  if (dim < 0) dim += range;
  return true;
}

Dims broadcast(at::IntArrayRef a, at::IntArrayRef b) { return at::infer_size_dimvector(a, b); }

bool fits(const at::Tensor& other, const at::Tensor& self) {
  return self.sizes().equals(broadcast(self.sizes(), other.sizes()));
}

void iterator_layout(std::span<const Geometry> operands, Spec& out) {
  if (fast_layout(operands, out)) return;

  // TensorIteratorBase::compute_shape
  Dims shape = dims(operands[0].sizes);
  for (const Geometry& operand : operands.subspan(1)) {
    if (shape.empty()) {
      shape = dims(operand.sizes);
    } else if (!operand.sizes.equals(shape)) {
      shape = broadcast(shape, operand.sizes);
    }
  }
  const size_t rank = shape.size();

  // compute_strides: broadcast dimensions have stride 0
  c10::SmallVector<Dims, 4> strides;
  for (const Geometry& operand : operands) {
    Dims& s = strides.emplace_back(rank, 0);
    const size_t missing = rank - operand.sizes.size();
    for (size_t i = 0; i < operand.sizes.size(); ++i) {
      const bool broadcast = operand.sizes[i] == 1 && shape[missing + i] != 1;
      s[missing + i] = broadcast ? 0 : operand.strides[i];
    }
  }

  // reorder_dimensions: insertion sort that tolerates ambiguous comparisons
  Dims order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  for (size_t i = 1; i < rank; ++i) {
    size_t place = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison = compare_dims(order[j], order[place], shape, strides);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[j], order[place]);
      place = j;
    }
  }

  // allocate_or_resize_outputs: zero sizes give zero strides here, but not in at::empty
  out.sizes = shape;
  out.strides = shapes::contiguous_strides(shape);
  if (std::is_sorted(order.rbegin(), order.rend())) return;
  int64_t next = 1;
  for (const int64_t dim : order) {
    out.strides[dim] = next;
    next *= shape[dim];
  }
}

void Elementwise::add(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(count_ < kMax);
  operands_[count_++].tensor = &tensor;
}

void Elementwise::add(const at::Scalar& number) {
  TORCH_INTERNAL_ASSERT(count_ < kMax);
  operands_[count_++].number = number.type();
}

void Elementwise::add(const Call& call, size_t i) {
  const c10::IValue& value = call.arg(i);
  if (value.isTensor()) {
    add(value.toTensor());
  } else {
    add(value.toScalar());
  }
}

void Elementwise::add_unpromoted(const at::Tensor& tensor) {
  add(tensor);
  operands_[count_ - 1].promoted = false;
}

at::ScalarType Elementwise::common_dtype() const {
  at::ScalarType first = at::ScalarType::Undefined;
  bool simple = true;
  bool all_wrapped = true;
  for (size_t i = 0; i < count_; ++i) {
    if (!operands_[i].promoted) continue;
    const at::Tensor* t = operands_[i].tensor;
    simple = simple && t && (first == at::ScalarType::Undefined || t->scalar_type() == first);
    if (t) first = t->scalar_type();
    all_wrapped = all_wrapped && (!t || is_wrapped(*t));
  }
  if (simple && !all_wrapped) return first;

  at::native::ResultTypeState state;
  for (size_t i = 0; i < count_; ++i) {
    const Operand& operand = operands_[i];
    if (!operand.promoted) continue;
    if (operand.tensor) {
      state = at::native::update_result_type_state(*operand.tensor, state);
      continue;
    }
    at::Scalar number = int64_t{0};
    if (operand.number == at::kBool) number = false;
    if (c10::isFloatingType(operand.number)) number = 0.0;
    if (c10::isComplexType(operand.number)) number = c10::complex<double>(0.0);
    state = at::native::update_result_type_state(number, state);
  }
  return at::native::result_type(state);
}

bool Elementwise::device(c10::Device& device) const {
  device = at::kCPU;
  for (size_t i = 0; i < count_ && device.is_cpu(); ++i) {
    if (operands_[i].tensor) device = operands_[i].tensor->device();
  }
  if (device.is_cpu()) return true;
  for (size_t i = 0; i < count_; ++i) {
    const at::Tensor* t = operands_[i].tensor;
    if (t && t->device() != device && !(t->is_cpu() && t->dim() == 0)) return false;
  }
  return true;
}

bool Elementwise::returns(Call& call, Promotion promotion) const {
  if (promotion == Promotion::kSame || promotion == Promotion::kSameBool) {
    const at::ScalarType dtype = operands_[0].tensor->scalar_type();
    for (size_t i = 1; i < count_; ++i) {
      if (operands_[i].tensor && operands_[i].tensor->scalar_type() != dtype) return false;
    }
    if (count_ > 1 && common_dtype() != dtype) return false;  // wrapped numbers only
    return returns(call, at::ScalarType::Undefined,
                   promotion == Promotion::kSame ? dtype : at::kBool);
  }
  at::ScalarType compute = common_dtype();
  if (promotion == Promotion::kFloat && c10::isIntegralType(compute, /*includeBool=*/true)) {
    compute = default_dtype();
  }
  return returns(call, compute, promotion == Promotion::kBool ? at::kBool : compute);
}

bool Elementwise::returns(Call& call, at::ScalarType compute, at::ScalarType result) const {
  Spec out;
  out.dtype = result;
  if (!device(out.device)) return false;

  std::array<Geometry, kMax> geometry;
  std::array<Dims, kMax> copies;
  for (size_t i = 0; i < count_; ++i) {
    const at::Tensor* t = operands_[i].tensor;
    if (!t) continue;  // a number: the geometry of a 0-dim tensor
    const bool copied = operands_[i].promoted && compute != at::ScalarType::Undefined &&
                        out.device.is_cpu() && t->scalar_type() != compute;
    if (copied && !t->is_non_overlapping_and_dense()) {
      copies[i] = preserved_strides(*t);
      geometry[i] = Geometry(t->sizes(), copies[i]);
    } else {
      geometry[i] = Geometry(*t);
    }
  }
  iterator_layout({geometry.data(), count_}, out);
  return call.returns(std::move(out));
}

}  // namespace antegrad::shapes
