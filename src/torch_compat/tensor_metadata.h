#pragma once

/// \file
/// Concrete metadata of one tensor: what shape functions describe, guards compare, and programs
/// expect of custom operators. TensorMeta (graph/graph.h) is its form in graphs, where sizes may be
/// symbolic.

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <sstream>
#include <string>

#include "graph/graph.h"

namespace antegrad::torch_compat {

using Dims = c10::SmallVector<int64_t, 6>;

/// How much of the metadata of two tensors must agree.
enum class Match : uint8_t {
  kind,    ///< dtype, device and number of dimensions
  values,  ///< dtype, device and sizes
  layout,  ///< and strides of dimensions of size above 1, if the tensor is not empty
  exact,   ///< and all strides, and the storage offset
};

/// Strides and offset count elements.
struct TensorMetadata {
  at::ScalarType dtype = at::kFloat;
  c10::Device device = at::kCPU;
  Dims sizes = {};
  Dims strides = {};
  int64_t offset = 0;   ///< storage offset
  bool defined = true;  ///< false: an undefined tensor; the other fields are then unused

  /// Requires a strided or undefined tensor.
  static TensorMetadata of(const at::Tensor& tensor);
  static TensorMetadata of(const c10::TensorImpl& tensor);
  /// Requires sizes without symbols.
  static TensorMetadata of(const TensorMeta& meta);
  /// Throws CaptureError for a dtype or device that graphs do not support.
  TensorMeta to_meta() const;
  at::TensorOptions options() const { return at::TensorOptions(device).dtype(dtype); }

  bool matches(const at::Tensor& tensor, Match match = Match::exact) const;
  /// The first field in which a tensor differs: "sizes [2, 3] instead of [2, 4]". Empty if it
  /// matches.
  std::string difference(const at::Tensor& found, Match match = Match::exact) const;
  std::string difference(const TensorMetadata& found, Match match = Match::exact) const;
};

bool operator==(const TensorMetadata& a, const TensorMetadata& b);
/// "Float[2, 3]/[3, 1] on cpu": dtype, sizes, strides; "+7" for an offset; "an undefined tensor".
std::string to_text(const TensorMetadata& metadata);

/// A storage of this size, or a tensor with this metadata, that has no data: for what reads the
/// metadata alone.
c10::Storage memory_without_data(size_t bytes, c10::Device device);
at::Tensor without_data(const TensorMetadata& metadata);

/// Whether each element of the span has its own position, and no position is unused (libtorch's
/// "non-overlapping and dense").
bool is_dense(at::IntArrayRef sizes, at::IntArrayRef strides);

/// "sizes [2, 3] instead of [2, 4]"
template <class T>
std::string instead(const char* what, const T& found, const T& expected) {
  std::ostringstream text;
  text << std::boolalpha << what << ' ' << found << " instead of " << expected;
  return text.str();
}

}  // namespace antegrad::torch_compat
