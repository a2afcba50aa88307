#pragma once

/// \file
/// From sources of generated kernels to code that can be called, on the CPU and on GPUs.

#include <memory>
#include <variant>
#include <vector>

#include "compile/kernel_sources.h"
#include "kernels/build.h"
#include "kernels/compiler.h"
#include "kernels/outcome.h"
#include "runtime/cuda_code.h"

namespace antegrad::compiler {

/// What a source became.
using KernelCode = std::variant<kernels::Built, std::shared_ptr<const runtime::CudaFunction>>;

/// By source. Several are compiled at once.
std::vector<kernels::Outcome<KernelCode>> build_code(const KernelSources& sources,
                                                     const kernels::Compiler& compiler);

}  // namespace antegrad::compiler
