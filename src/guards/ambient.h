#pragma once

/// \file
/// Ambient state: thread-local and global switches of libtorch that change how a callable is
/// captured, or what its operators compute.
///
/// Default hooks on saved tensors are not included: a compiled region saves the same values in any
/// case.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

// Type and name of each switch, and the expression by which Ambient::now() reads it. The names
// appear in messages.
#define AG_AMBIENT(X)                                                                              \
  X(bool, grad_mode, autograd.get_grad_mode())                                                     \
  X(bool, inference_mode, autograd.get_inference_mode())                                           \
  X(bool, view_replay, autograd.get_view_replay_enabled())                                         \
  X(bool, anomaly_mode, torch::autograd::AnomalyMode::is_enabled())                                \
  X(bool, anomaly_check_nan, torch::autograd::AnomalyMode::should_check_nan())                     \
  X(bool, autocast_cpu, at::autocast::is_autocast_enabled(at::kCPU))                               \
  X(bool, autocast_cuda, at::autocast::is_autocast_enabled(at::kCUDA))                             \
  X(c10::ScalarType, autocast_cpu_dtype, at::autocast::get_autocast_dtype(at::kCPU))               \
  X(c10::ScalarType, autocast_cuda_dtype, at::autocast::get_autocast_dtype(at::kCUDA))             \
  X(c10::ScalarType, default_dtype, c10::get_default_dtype_as_scalartype())                        \
  X(bool, deterministic, context.deterministicAlgorithms())                                        \
  X(bool, deterministic_warn_only, context.deterministicAlgorithmsWarnOnly())                      \
  X(bool, deterministic_fill_uninitialized_memory, context.deterministicFillUninitializedMemory()) \
  X(bool, sdp_flash, context.userEnabledFlashSDP())                                                \
  X(bool, sdp_flash3, context.userEnabledFA3SDP())                                                 \
  X(bool, sdp_efficient, context.userEnabledMemEfficientSDP())                                     \
  X(bool, sdp_math, context.userEnabledMathSDP())                                                  \
  X(bool, sdp_cudnn, context.userEnabledCuDNNSDP())                                                \
  X(bool, sdp_overrideable, context.userEnabledOverrideableSDP())                                  \
  X(bool, sdp_math_reduced_precision_reduction, context.allowFP16BF16ReductionMathSDP())           \
  X(uint64_t, sdp_priority_order, sdp_priorities(context))                                         \
  X(bool, mkldnn, context.userEnabledMkldnn())                                                     \
  X(bool, mkldnn_deterministic, context.deterministicMkldnn())                                     \
  X(bool, nnpack, context.userEnabledNNPACK())                                                     \
  X(bool, cudnn, context.userEnabledCuDNN())                                                       \
  X(bool, cudnn_benchmark, context.benchmarkCuDNN())                                               \
  X(bool, cudnn_deterministic, context.deterministicCuDNN())                                       \
  X(int, cudnn_depthwise_kernel, torch_compat::depthwise_kernel(context))                          \
  X(uint8_t, linalg_backend, static_cast<uint8_t>(context.linalgPreferredBackend()))               \
  X(uint64_t, float32_precision, torch_compat::float32_precision_switches(context))                \
  X(uint8_t, fp16_reduction, static_cast<uint8_t>(context.allowFP16ReductionCuBLAS()))             \
  X(uint8_t, bf16_reduction, static_cast<uint8_t>(context.allowBF16ReductionCuBLAS()))             \
  X(bool, fp16_accumulation, context.allowFP16AccumulationCuBLAS())                                \
  X(bool, fp16_reduction_cpu, context.allowFP16ReductionCPU())

namespace antegrad::guards {

/// A snapshot. A program is only used under the state in which it was captured.
struct Ambient {
#define AG_FIELD(type, name, value) type name;
  AG_AMBIENT(AG_FIELD)
#undef AG_FIELD

  static Ambient now();
  friend bool operator==(const Ambient&, const Ambient&) = default;
  /// All switches: "grad_mode 1, inference_mode 0, …".
  std::string text() const;
  /// The first switch that differs, with both values: "grad_mode was 1, is 0"; empty when equal.
  std::string difference(const Ambient& now) const;
};

}  // namespace antegrad::guards
