#pragma once

/// \file
/// How near a generated kernel comes to what it replaces.

#include <cstdint>

namespace antegrad::lower {

enum class Level : uint8_t {
  exact,  ///< eager's bits
  /// Any rounding that is not less accurate: sums in one order for all, fused products, and no
  /// rounding to bf16 and f16 between the nodes of a group.
  close,
};

}  // namespace antegrad::lower
