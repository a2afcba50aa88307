#pragma once

/// \file
/// The float32 precision switches of libtorch. Its public functions look several of them up in
/// hash tables, and throw if the old switches (TF32 flags, matmul precision) and the new ones
/// (float32Precision) disagree. A guard may do neither.

#include <ATen/Context.h>

#include <cstdint>

namespace antegrad::torch_compat {

/// All settings, old and new, packed into one number.
uint64_t float32_precision_switches(const at::Context& context);

/// Which kernels depthwise convolutions use on CUDA; 0 if libtorch has no such switch (up to
/// 2.11).
int depthwise_kernel(const at::Context& context);

}  // namespace antegrad::torch_compat
