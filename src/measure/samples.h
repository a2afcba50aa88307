#pragma once

/// \file
/// Sample calls of kernels, by class and size, that calibration times (calibration.h).

#include <c10/core/Device.h>

#include <functional>
#include <optional>

#include "cost/rates.h"

namespace antegrad::measuring {

/// A call on tensors of its own, which it keeps. Draws advance the device's default generator.
struct Sample {
  double work = 0;  ///< counted like that of nodes (cost/node_cost.h)
  std::function<void()> call;
};

/// Samples with growing work, from `size` 0. Nothing beyond the last size. Takes at most 400 MiB.
/// Throws what libtorch throws if the device has no such kernel.
std::optional<Sample> sample_of(const KernelClass& kernel, c10::Device device, size_t size);

}  // namespace antegrad::measuring
