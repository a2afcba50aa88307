#pragma once

/// \file
/// Calls of an operator's kernels for nothing but the metadata of what they return.

#include <ATen/core/ivalue.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/op_table.h"
#include "shapes/shape_call.h"

namespace antegrad::capture {

/// What the Meta kernel returns, on `device`, lists flattened. Throws what it throws.
std::vector<shapes::Spec> ask_meta(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                   c10::Device device);

/// What the real kernel returns for tensors of these metadata whose elements are all `fill`.
/// Generators are left as they were. Answers are kept for the rest of the process: `memoised` tells
/// whether this one was there. Throws what the kernel throws. Thread-safe.
std::vector<shapes::Spec> ask_kernel(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                     c10::Device device, int fill, bool& memoised);

/// What the operator returns on data: the kernel runs on `data` (by the value of a stand-in)
/// instead of the stand-ins in `args`. Throws what the kernel throws.
std::vector<shapes::Spec> run_on_data(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                      const std::unordered_map<ValueId, at::Tensor>& data);

/// Metadata of tensors, values of the rest: "Float[2, 3]/[3, 1] on cpu, 0.5".
std::string arguments_text(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args);

}  // namespace antegrad::capture
