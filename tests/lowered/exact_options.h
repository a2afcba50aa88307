#pragma once

/// \file
/// Shared by the tests of programs with generated kernels.

#include <antegrad/options.h>

namespace antegrad::testing {

/// Exact kernels wherever they can be made, however slow.
inline Options exact() {
  return Options()
      .with_verify_graphs(true)
      .with_lowering(Lowering::exact)
      .with_keep_slow_kernels(true);
}

}  // namespace antegrad::testing
