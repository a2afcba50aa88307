#pragma once

/// \file
/// Shared by the tests of programs that run as CUDA graphs (Options::gpu_graphs).

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <string>

#include "training.h"

namespace antegrad::testing {

inline Options with_graphs() {
  return Options()
      .with_verify_graphs(true)
      .with_lowering(Lowering::off)
      .with_audit(Audit::off)
      .with_gpu_graphs(GpuGraphs::on);
}

class GpuGraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    // Kernels with atomic additions would differ from run to run.
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }

  template <class Step>
  static GpuGraphReport forward(const Step& step) {
    return step.report().programs.at(0).gpu_graphs.at(0);
  }
  template <class Step>
  static GpuGraphReport backward(const Step& step) {
    return step.report().programs.at(0).gpu_graphs.at(1);
  }
  template <class Step>
  static int64_t count(const Step& step, const std::string& part) {
    int64_t found = 0;
    const auto report = step.report();
    for (const auto& graphs : report.programs.at(0).gpu_graphs) {
      for (const auto& [reason, times] : graphs.node_by_node) {
        if (reason.find(part) != std::string::npos) found += times;
      }
    }
    return found;
  }
};

inline at::Tensor on_gpu(at::IntArrayRef sizes) { return at::randn(sizes, at::device(at::kCUDA)); }
inline at::Tensor gpu_leaf(at::IntArrayRef sizes) { return on_gpu(sizes).requires_grad_(); }

}  // namespace antegrad::testing
