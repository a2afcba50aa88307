#include "torch_compat/kernel_switches.h"

#include <ATen/Context.h>

#include "torch_compat/precision.h"

namespace antegrad::torch_compat {

KernelSwitches KernelSwitches::now() {
  auto& context = at::globalContext();
  uint64_t packed = 0;
  const auto add = [&packed](auto value) { packed = packed << 4U | static_cast<uint64_t>(value); };
  add(context.deterministicAlgorithms());
  add(context.deterministicAlgorithmsWarnOnly());
  add(context.deterministicFillUninitializedMemory());
  add(context.userEnabledCuDNN());
  add(context.benchmarkCuDNN());
  add(context.deterministicCuDNN());
  add(depthwise_kernel(context));
  add(context.linalgPreferredBackend());
  add(context.allowFP16ReductionCuBLAS());
  add(context.allowBF16ReductionCuBLAS());
  add(context.allowFP16AccumulationCuBLAS());
  return {float32_precision_switches(context), packed};
}

}  // namespace antegrad::torch_compat
