#include "guards/ambient.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "guards/changed.h"
#include "torch_compat/precision.h"

namespace antegrad::guards {
namespace {

// Backends in order of priority, four bits each.
uint64_t sdp_priorities(at::Context& context) {
  uint64_t packed = 0;
  for (const auto backend : context.sDPPriorityOrder()) {
    packed = packed << 4U | (static_cast<uint64_t>(backend) & 0xFU);
  }
  return packed;
}

template <class T>
T shown(T value) {
  return value;
}
int shown(uint8_t value) { return value; }  // a stream would print a character

}  // namespace

Ambient Ambient::now() {
  auto& context = at::globalContext();
  const auto& autograd = c10::AutogradState::get_tls_state();
  Ambient a{};
  a.grad_mode = autograd.get_grad_mode();
  a.inference_mode = autograd.get_inference_mode();
  a.view_replay = autograd.get_view_replay_enabled();
  a.anomaly_mode = torch::autograd::AnomalyMode::is_enabled();
  a.anomaly_check_nan = torch::autograd::AnomalyMode::should_check_nan();
  a.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  a.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  a.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  a.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  a.default_dtype = c10::get_default_dtype_as_scalartype();
  a.deterministic = context.deterministicAlgorithms();
  a.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  a.deterministic_fill_uninitialized_memory = context.deterministicFillUninitializedMemory();
  a.sdp_flash = context.userEnabledFlashSDP();
  a.sdp_flash3 = context.userEnabledFA3SDP();
  a.sdp_efficient = context.userEnabledMemEfficientSDP();
  a.sdp_math = context.userEnabledMathSDP();
  a.sdp_cudnn = context.userEnabledCuDNNSDP();
  a.sdp_overrideable = context.userEnabledOverrideableSDP();
  a.sdp_math_reduced_precision_reduction = context.allowFP16BF16ReductionMathSDP();
  a.sdp_priority_order = sdp_priorities(context);
  a.mkldnn = context.userEnabledMkldnn();
  a.mkldnn_deterministic = context.deterministicMkldnn();
  a.nnpack = context.userEnabledNNPACK();
  a.cudnn = context.userEnabledCuDNN();
  a.cudnn_benchmark = context.benchmarkCuDNN();
  a.cudnn_deterministic = context.deterministicCuDNN();
  a.cudnn_depthwise_kernel = torch_compat::depthwise_kernel(context);
  a.linalg_backend = static_cast<uint8_t>(context.linalgPreferredBackend());
  a.float32_precision = torch_compat::float32_precision_switches(context);
  a.fp16_reduction = static_cast<uint8_t>(context.allowFP16ReductionCuBLAS());
  a.bf16_reduction = static_cast<uint8_t>(context.allowBF16ReductionCuBLAS());
  a.fp16_accumulation = context.allowFP16AccumulationCuBLAS();
  a.fp16_reduction_cpu = context.allowFP16ReductionCPU();
  return a;
}

std::string Ambient::difference(const Ambient& now) const {
#define AG_COMPARE(type, name) \
  if (name != now.name) return changed(#name, shown(name), shown(now.name));
  AG_AMBIENT(AG_COMPARE)
#undef AG_COMPARE
  return "";
}

}  // namespace antegrad::guards
