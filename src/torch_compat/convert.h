#pragma once

/// \file
/// Converts between libtorch's representation and the graph's: dtypes, devices, operator names.
/// Metadata: see tensor_metadata.h.

#include <ATen/core/operator_name.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <string>

#include "graph/graph.h"

namespace antegrad::torch_compat {

/// Throws CaptureError for element types that graphs do not have (quantised, bit-packed).
DType to_dtype(at::ScalarType type);
at::ScalarType to_scalar_type(DType dtype);
Device to_device(c10::Device device);
c10::Device to_c10_device(Device device);
/// The current device of its kind for one without an index ("cuda"), as factories do. Without
/// CUDA in libtorch there is none, and the factory says so.
c10::Device with_index(c10::Device device);

/// "aten::mm.default", "aten::add.Tensor".
std::string to_op_name(const c10::OperatorName& name);
/// Inverse of to_op_name.
c10::OperatorName from_op_name(const std::string& name);

/// Names of layouts and memory formats in the graph, and the inverse.
std::string to_name(at::Layout layout);
std::string to_name(at::MemoryFormat format);
at::Layout layout_from_name(const std::string& name);
at::MemoryFormat memory_format_from_name(const std::string& name);

/// The sizes of a shape without symbols.
std::vector<int64_t> to_ints(const Shape& shape);

}  // namespace antegrad::torch_compat
