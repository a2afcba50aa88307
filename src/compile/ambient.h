#pragma once

/// \file
/// Thread-local and global switches of libtorch that decide what a callable captures to.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

namespace antegrad::compiler {

/// A snapshot; programs are used only under the one they were captured in.
struct Ambient {
  bool grad_mode, inference_mode;
  bool autocast_cpu, autocast_cuda;
  c10::ScalarType autocast_cpu_dtype, autocast_cuda_dtype;
  c10::ScalarType default_dtype;
  bool deterministic, deterministic_warn_only;
  bool sdp_flash, sdp_efficient, sdp_math, sdp_cudnn;
  bool mkldnn, cudnn, cudnn_benchmark, cudnn_deterministic;
  bool anomaly_mode;
  uint8_t matmul_precision;

  static Ambient now();
  friend bool operator==(const Ambient&, const Ambient&) = default;
  /// The first switch that differs, with both values: "grad_mode was 1, is 0"; empty when equal.
  std::string difference(const Ambient& now) const;
};

}  // namespace antegrad::compiler
