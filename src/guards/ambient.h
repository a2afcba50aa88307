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

// Type and name of each switch. The names appear in messages.
#define AG_AMBIENT(X)                              \
  X(bool, grad_mode)                               \
  X(bool, inference_mode)                          \
  X(bool, view_replay)                             \
  X(bool, anomaly_mode)                            \
  X(bool, anomaly_check_nan)                       \
  X(bool, autocast_cpu)                            \
  X(bool, autocast_cuda)                           \
  X(c10::ScalarType, autocast_cpu_dtype)           \
  X(c10::ScalarType, autocast_cuda_dtype)          \
  X(c10::ScalarType, default_dtype)                \
  X(bool, deterministic)                           \
  X(bool, deterministic_warn_only)                 \
  X(bool, deterministic_fill_uninitialized_memory) \
  X(bool, sdp_flash)                               \
  X(bool, sdp_flash3)                              \
  X(bool, sdp_efficient)                           \
  X(bool, sdp_math)                                \
  X(bool, sdp_cudnn)                               \
  X(bool, sdp_overrideable)                        \
  X(bool, sdp_math_reduced_precision_reduction)    \
  X(uint64_t, sdp_priority_order)                  \
  X(bool, mkldnn)                                  \
  X(bool, mkldnn_deterministic)                    \
  X(bool, nnpack)                                  \
  X(bool, cudnn)                                   \
  X(bool, cudnn_benchmark)                         \
  X(bool, cudnn_deterministic)                     \
  X(int, cudnn_depthwise_kernel)                   \
  X(uint8_t, linalg_backend)                       \
  X(uint64_t, float32_precision)                   \
  X(uint8_t, fp16_reduction)                       \
  X(uint8_t, bf16_reduction)                       \
  X(bool, fp16_accumulation)                       \
  X(bool, fp16_reduction_cpu)

namespace antegrad::guards {

/// A snapshot. A program is only used under the state in which it was captured.
struct Ambient {
#define AG_FIELD(type, name) type name;
  AG_AMBIENT(AG_FIELD)
#undef AG_FIELD

  static Ambient now();
  friend bool operator==(const Ambient&, const Ambient&) = default;
  /// The first switch that differs, with both values: "grad_mode was 1, is 0"; empty when equal.
  std::string difference(const Ambient& now) const;
};

}  // namespace antegrad::guards
