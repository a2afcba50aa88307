#pragma once

/// \file
/// What generated kernels are compiled from.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "graph/hash.h"
#include "kernels/build.h"
#include "lower/kernel_graph.h"

namespace antegrad::compiler {

/// The sources of kernels. Kernels with the same text, as those of equal layers, have one on each
/// device.
struct KernelSources {
  std::vector<kernels::Source> sources;
  std::vector<Device> devices;    ///< by source
  std::vector<size_t> of_kernel;  ///< index into `sources`, by kernel
};

/// `fault`: changes each kernel before it is printed, for tests; null: nothing does.
KernelSources sources_of(const std::vector<lower::KernelOfGroup>& kernels,
                         const std::function<void(lower::Kernel&)>& fault);

/// The CPU with its features, and the build of libtorch: what measurements and proofs are of.
const std::string& this_machine();

/// What is said of a run, with all that its code is made from. `compiler`: that for the CPU.
Hash128 with_code(const Hash128& said, const kernels::Source& source,
                  const kernels::Compiler& compiler);

}  // namespace antegrad::compiler
