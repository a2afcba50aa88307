#pragma once

/// \file
/// The switches of libtorch by which operators on a GPU choose their kernels when they run.

#include <cstdint>

namespace antegrad::torch_compat {

/// A snapshot.
struct KernelSwitches {
  uint64_t float32 = 0;  ///< float32_precision_switches()
  uint64_t others = 0;   ///< determinism, cuDNN, linear algebra, sums of halves

  static KernelSwitches now();
  friend bool operator==(const KernelSwitches&, const KernelSwitches&) = default;
};

}  // namespace antegrad::torch_compat
