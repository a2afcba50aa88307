#pragma once

/// \file
/// From sources of generated kernels to code that can be called, on the CPU and on GPUs.

#include <memory>
#include <vector>

#include "compile/kernel_sources.h"
#include "kernels/build.h"
#include "kernels/compiler.h"
#include "kernels/outcome.h"
#include "runtime/cuda_code.h"

namespace antegrad::compiler {

/// What a source became: a function for the CPU, or one for a GPU.
struct KernelCode {
  kernels::CodeFrom from;
  std::shared_ptr<const kernels::Library> library = nullptr;  ///< has `function`
  kernels::Function function = nullptr;
  std::shared_ptr<const runtime::CudaFunction> gpu = nullptr;

  /// What bundles have of it.
  std::shared_ptr<const kernels::Code> held() const;
};

/// By source. Several are compiled at once.
std::vector<kernels::Outcome<KernelCode>> build_code(const KernelSources& sources,
                                                     const kernels::Compiler& compiler);

}  // namespace antegrad::compiler
