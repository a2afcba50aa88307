#pragma once

/// \file
/// Calls an operator's kernels only for the metadata of their results.

#include <ATen/core/ivalue.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/op_table.h"
#include "shapes/shape_call.h"

namespace antegrad::capture {

/// The results of the Meta kernel on `device`, with lists flattened. Throws its errors.
std::vector<shapes::Spec> ask_meta(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                   c10::Device device);

/// The results of the real kernel for tensors with this metadata and that data (ops/trial_data.h).
/// Generators do not change. Results are kept for the process; `memoised` tells whether this one
/// was. Throws the kernel's errors. Thread-safe.
std::vector<shapes::Spec> ask_kernel(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                     c10::Device device, TrialData data, bool& memoised);

/// The results of the operator on data: the kernel runs on `data` (by the value of a stand-in) in
/// place of the stand-ins in `args`. Throws the kernel's errors.
std::vector<shapes::Spec> run_on_data(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args,
                                      const std::unordered_map<ValueId, at::Tensor>& data);

/// Metadata of tensors and values of other arguments: "Float[2, 3]/[3, 1] on cpu, 0.5".
std::string arguments_text(const ops::OpEntry& entry, at::ArrayRef<c10::IValue> args);

}  // namespace antegrad::capture
