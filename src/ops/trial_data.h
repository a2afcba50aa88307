#pragma once

/// \file
/// Tensors on which a kernel is tried: data of the operator's domain (OpRow::trial). The results
/// do not matter, but a kernel may refuse other data, and a CUDA kernel that fails on an assertion
/// makes the device unusable for the process.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "graph/op.h"
#include "ops/op_table.h"

namespace antegrad::ops {

/// The data for an operator on that device. Unknown where the table says so and, on other devices
/// than the CPU, for operators of libtorch that have neither a row in the table nor a shape
/// function: nobody has looked at their kernels.
TrialData trial_data_of(const OpEntry& entry, c10::Device device);

/// The value of all elements of a tensor of that dtype. finish_trial() then changes some. `unknown`
/// counts as zeros.
int64_t trial_fill(TrialData data, c10::ScalarType dtype);
/// Makes the matrices of a tensor that was filled identities, where `data` says so and its elements
/// do not share memory.
void finish_trial(TrialData data, const at::Tensor& tensor);

}  // namespace antegrad::ops
