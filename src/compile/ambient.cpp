#include "compile/ambient.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "compile/changed.h"

namespace antegrad::compiler {

Ambient Ambient::now() {
  const auto& context = at::globalContext();
  Ambient a{};
  a.grad_mode = at::GradMode::is_enabled();
  a.inference_mode = c10::InferenceMode::is_enabled();
  a.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  a.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  a.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  a.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  a.default_dtype = c10::get_default_dtype_as_scalartype();
  a.deterministic = context.deterministicAlgorithms();
  a.deterministic_warn_only = context.deterministicAlgorithmsWarnOnly();
  a.sdp_flash = context.userEnabledFlashSDP();
  a.sdp_efficient = context.userEnabledMemEfficientSDP();
  a.sdp_math = context.userEnabledMathSDP();
  a.sdp_cudnn = context.userEnabledCuDNNSDP();
  a.mkldnn = context.userEnabledMkldnn();
  a.cudnn = context.userEnabledCuDNN();
  a.cudnn_benchmark = context.benchmarkCuDNN();
  a.cudnn_deterministic = context.deterministicCuDNN();
  a.anomaly_mode = torch::autograd::AnomalyMode::is_enabled();
  a.matmul_precision = static_cast<uint8_t>(context.float32MatmulPrecision());
  return a;
}

std::string Ambient::difference(const Ambient& now) const {
  std::string text;
  const auto compare = [&](const char* name, auto was, auto is) {
    if (text.empty() && was != is) {
      text = changed(name, static_cast<int>(was), static_cast<int>(is));
    }
  };
#define AG_COMPARE(field) compare(#field, field, now.field)
  AG_COMPARE(grad_mode);
  AG_COMPARE(inference_mode);
  AG_COMPARE(autocast_cpu);
  AG_COMPARE(autocast_cuda);
  AG_COMPARE(autocast_cpu_dtype);
  AG_COMPARE(autocast_cuda_dtype);
  AG_COMPARE(default_dtype);
  AG_COMPARE(deterministic);
  AG_COMPARE(deterministic_warn_only);
  AG_COMPARE(sdp_flash);
  AG_COMPARE(sdp_efficient);
  AG_COMPARE(sdp_math);
  AG_COMPARE(sdp_cudnn);
  AG_COMPARE(mkldnn);
  AG_COMPARE(cudnn);
  AG_COMPARE(cudnn_benchmark);
  AG_COMPARE(cudnn_deterministic);
  AG_COMPARE(anomaly_mode);
  AG_COMPARE(matmul_precision);
#undef AG_COMPARE
  return text;
}

}  // namespace antegrad::compiler
