#include "torch_compat/tensor_metadata.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>

#include "torch_compat/convert.h"

namespace antegrad::torch_compat {
namespace {

// Refers to a tensor, or to metadata.
struct View {
  bool defined = false;
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  at::IntArrayRef sizes, strides;
  int64_t offset = 0;
};

View view_of(const TensorMetadata& m) {
  return {m.defined, m.dtype, m.device, m.sizes, m.strides, m.offset};
}

// Up to Match::values no strides are needed: the tensor may be sparse.
View view_of(const at::Tensor& t, Match match) {
  if (!t.defined()) return {};
  View view{true, t.scalar_type(), t.device(), t.sizes(), {}, 0};
  if (match > Match::values) {
    view.strides = t.strides();
    view.offset = t.storage_offset();
  }
  return view;
}

enum class Field : uint8_t { none, defined, dtype, device, sizes, strides, offset };

bool same_steps(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  bool same = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    same = same && (sizes[d] == 1 || a[d] == b[d]);
  }
  return same;
}

Field first_difference(const View& a, const View& b, Match match) {
  if (a.defined != b.defined) return Field::defined;
  if (!a.defined) return Field::none;
  if (a.dtype != b.dtype) return Field::dtype;
  if (a.device != b.device) return Field::device;
  if (match == Match::kind) {
    return a.sizes.size() == b.sizes.size() ? Field::none : Field::sizes;
  }
  if (!a.sizes.equals(b.sizes)) return Field::sizes;
  if (match == Match::values) return Field::none;
  const bool exact = match == Match::exact;
  if (!(exact ? a.strides.equals(b.strides) : same_steps(a.sizes, a.strides, b.strides))) {
    return Field::strides;
  }
  return exact && a.offset != b.offset ? Field::offset : Field::none;
}

std::string text_of(const View& view) {
  if (!view.defined) return "an undefined tensor";
  std::ostringstream out;
  out << view.dtype << view.sizes << '/' << view.strides;
  if (view.offset != 0) out << '+' << view.offset;
  out << " on " << view.device;
  return out.str();
}

std::string difference_of(const View& expected, const View& found, Match match) {
  switch (first_difference(expected, found, match)) {
    case Field::none: break;
    case Field::defined: return text_of(found) + " instead of " + text_of(expected);
    case Field::dtype: return instead("dtype", found.dtype, expected.dtype);
    case Field::device: return instead("device", found.device, expected.device);
    case Field::sizes: return instead("sizes", found.sizes, expected.sizes);
    case Field::strides: return instead("strides", found.strides, expected.strides);
    case Field::offset: return instead("storage_offset", found.offset, expected.offset);
  }
  return "";
}

}  // namespace

TensorMetadata TensorMetadata::of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {.defined = false};
  return of(*tensor.unsafeGetTensorImpl());
}

TensorMetadata TensorMetadata::of(const c10::TensorImpl& tensor) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  return {.dtype = c10::typeMetaToScalarType(tensor.dtype()),
          .device = tensor.device(),
          .sizes = {sizes.begin(), sizes.end()},
          .strides = {strides.begin(), strides.end()},
          .offset = tensor.storage_offset()};
}

TensorMetadata TensorMetadata::of(const TensorMeta& meta) {
  const auto sizes = to_ints(meta.sizes), strides = to_ints(meta.strides);
  return {.dtype = to_scalar_type(meta.dtype),
          .device = to_c10_device(meta.device),
          .sizes = {sizes.begin(), sizes.end()},
          .strides = {strides.begin(), strides.end()},
          .offset = meta.offset.constant()};
}

TensorMeta TensorMetadata::to_meta() const {
  return {.dtype = to_dtype(dtype),
          .device = to_device(device),
          .sizes = {sizes.begin(), sizes.end()},
          .strides = {strides.begin(), strides.end()},
          .offset = offset};
}

bool TensorMetadata::matches(const at::Tensor& tensor, Match match) const {
  return first_difference(view_of(*this), view_of(tensor, match), match) == Field::none;
}

std::string TensorMetadata::difference(const at::Tensor& found, Match match) const {
  return difference_of(view_of(*this), view_of(found, match), match);
}

std::string TensorMetadata::difference(const TensorMetadata& found, Match match) const {
  return difference_of(view_of(*this), view_of(found), match);
}

bool operator==(const TensorMetadata& a, const TensorMetadata& b) {
  return first_difference(view_of(a), view_of(b), Match::exact) == Field::none;
}

std::string to_text(const TensorMetadata& metadata) { return text_of(view_of(metadata)); }

bool is_dense(at::IntArrayRef sizes, at::IntArrayRef strides) {
  Dims order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] > 1) order.push_back(static_cast<int64_t>(d));
  }
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (const int64_t d : order) {
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

c10::Storage memory_without_data(size_t bytes, c10::Device device) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, device),
                      /*allocator=*/nullptr, /*resizable=*/false);
}

at::Tensor without_data(const TensorMetadata& metadata) {
  const auto type = c10::scalarTypeToTypeMeta(metadata.dtype);
  const auto bytes = at::detail::computeStorageNbytes(metadata.sizes, metadata.strides,
                                                      type.itemsize(), metadata.offset);
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      memory_without_data(bytes, metadata.device),
      c10::DispatchKeySet(c10::computeDispatchKey(metadata.dtype, at::kStrided, metadata.device)),
      type);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(metadata.sizes, metadata.strides,
                                                    metadata.offset);
  return made;
}

}  // namespace antegrad::torch_compat
