// Ambient switches of libtorch. Each is guarded and named in the report if it differs. After it is
// restored, the old program is used again.

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <functional>
#include <string>

#include "support/parity.h"

namespace antegrad::testing {
namespace ambient_test {

struct Switch {
  const char* name;  // as in the report
  std::function<void()> change, restore;
};

at::Context& context() { return at::globalContext(); }

// A setter of the context with the value that it changes to and the default.
template <class T>
Switch of_context(const char* name, void (at::Context::*set)(T), T changed, T restored) {
  return {name, [=] { (context().*set)(changed); }, [=] { (context().*set)(restored); }};
}

Switch view_replay() {
  const auto set = [](bool on) { c10::AutogradState::get_tls_state().set_view_replay_enabled(on); };
  return {"view_replay", [=] { set(true); }, [=] { set(false); }};
}

Switch float32_setting(at::Float32Backend backend, at::Float32Op op) {
  const auto before = context().float32Precision(backend, op);
  return {"float32_precision",
          [=] { context().setFloat32Precision(backend, op, at::Float32Precision::IEEE); },
          [=] { context().setFloat32Precision(backend, op, before); }};
}

std::vector<Switch> switches() {
  using C = at::Context;
  using torch::autograd::AnomalyMode;
  return {
      {"grad_mode", [] { at::GradMode::set_enabled(false); },
       [] { at::GradMode::set_enabled(true); }},
      view_replay(),
      {"anomaly_mode", [] { AnomalyMode::set_enabled(true); },
       [] { AnomalyMode::set_enabled(false); }},
      {"anomaly_check_nan", [] { AnomalyMode::set_enabled(false, false); },
       [] { AnomalyMode::set_enabled(false, true); }},
      {"autocast_cpu", [] { at::autocast::set_autocast_enabled(at::kCPU, true); },
       [] { at::autocast::set_autocast_enabled(at::kCPU, false); }},
      {"autocast_cuda", [] { at::autocast::set_autocast_enabled(at::kCUDA, true); },
       [] { at::autocast::set_autocast_enabled(at::kCUDA, false); }},
      {"autocast_cpu_dtype", [] { at::autocast::set_autocast_dtype(at::kCPU, at::kHalf); },
       [] { at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16); }},
      {"autocast_cuda_dtype", [] { at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16); },
       [] { at::autocast::set_autocast_dtype(at::kCUDA, at::kHalf); }},
      {"default_dtype", [] { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); },
       [] { c10::set_default_dtype(caffe2::TypeMeta::Make<float>()); }},
      {"deterministic was", [] { context().setDeterministicAlgorithms(true, false); },
       [] { context().setDeterministicAlgorithms(false, false); }},
      {"deterministic_warn_only", [] { context().setDeterministicAlgorithms(false, true); },
       [] { context().setDeterministicAlgorithms(false, false); }},
      of_context<bool>("deterministic_fill_uninitialized_memory",
                       &C::setDeterministicFillUninitializedMemory, false, true),
      of_context<bool>("sdp_flash", &C::setSDPUseFlash, false, true),
      of_context<bool>("sdp_flash3", &C::setSDPUseFA3, true, false),
      of_context<bool>("sdp_efficient", &C::setSDPUseMemEfficient, false, true),
      of_context<bool>("sdp_math", &C::setSDPUseMath, false, true),
      of_context<bool>("sdp_cudnn", &C::setSDPUseCuDNN, false, true),
      of_context<bool>("sdp_overrideable", &C::setSDPUseOverrideable, false, true),
      of_context<bool>("sdp_math_reduced_precision_reduction", &C::setAllowFP16BF16ReductionMathSDP,
                       true, false),
      {"sdp_priority_order",
       [] {
         context().setSDPPriorityOrder({2, 1, 0, 3, 4});
       },
       [] {
         context().setSDPPriorityOrder({1, 2, 0, 3, 4});
       }},
      of_context<bool>("mkldnn", &C::setUserEnabledMkldnn, false, true),
      of_context<bool>("mkldnn_deterministic", &C::setDeterministicMkldnn, true, false),
      of_context<bool>("nnpack", &C::setUserEnabledNNPACK, false, true),
      of_context<bool>("cudnn was", &C::setUserEnabledCuDNN, false, true),
      of_context<bool>("cudnn_benchmark", &C::setBenchmarkCuDNN, true, false),
      of_context<bool>("cudnn_deterministic", &C::setDeterministicCuDNN, true, false),
      {"float32_precision", [] { context().setFloat32MatmulPrecision("high"); },
       [] { context().setFloat32MatmulPrecision("highest"); }},
      of_context<bool>("float32_precision", &C::setAllowTF32CuDNN, false, true),
      of_context<bool>("float32_precision", &C::setAllowTF32CuBLAS, true, false),
      float32_setting(at::Float32Backend::MKLDNN, at::Float32Op::CONV),
      float32_setting(at::Float32Backend::CUDA, at::Float32Op::RNN),
      float32_setting(at::Float32Backend::GENERIC, at::Float32Op::ALL),
      {"fp16_reduction was", [] { context().setAllowFP16ReductionCuBLAS(false); },
       [] { context().setAllowFP16ReductionCuBLAS(true); }},
      {"bf16_reduction", [] { context().setAllowBF16ReductionCuBLAS(false); },
       [] { context().setAllowBF16ReductionCuBLAS(true); }},
      of_context<bool>("fp16_accumulation", &C::setAllowFP16AccumulationCuBLAS, true, false),
  };
}

TEST(AmbientSwitches, EachIsGuardedNamedAndFoundAgain) {
  for (const auto& s : switches()) {
    auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); });
    const auto x = at::randn({3});
    const auto expected = x.sin();
    s.change();  // the first call of some setters also changes other settings
    s.restore();
    step(x);
    s.change();
    const auto changed = step(x);
    s.restore();
    EXPECT_TRUE(same_bits(changed, expected));
    auto report = step.report();
    EXPECT_EQ(report.programs.size(), 2U) << s.name;
    ASSERT_EQ(report.recompiles.size(), 1U) << s.name;
    EXPECT_EQ(report.recompiles[0].rfind(s.name, 0), 0U)
        << s.name << " against " << report.recompiles[0];
    step(x);
    report = step.report();
    EXPECT_EQ(report.programs.size(), 2U) << s.name << ": " << report.recompiles.back();
  }
}

TEST(AmbientSwitches, InferenceMode) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); });
  const auto x = at::randn({3});
  const at::NoGradGuard no_grad;  // which inference mode implies
  step(x);
  {
    const c10::InferenceMode on;
    EXPECT_TRUE(step(x).is_inference());
  }
  EXPECT_FALSE(step(x).is_inference());
  EXPECT_EQ(step.report().programs.size(), 2U);
  EXPECT_EQ(step.report().recompiles.at(0), "inference_mode was 0, is 1");
}

// The old and the new switches of float32 precision may disagree; libtorch's own getters throw
// then.
TEST(AmbientSwitches, ContradictingPrecisionSwitchesAreNoError) {
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); });
  const auto x = at::randn({3});
  context().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                                at::Float32Precision::BF16);
  context().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL,
                                at::Float32Precision::TF32);
  EXPECT_ANY_THROW(context().float32MatmulPrecision());
  EXPECT_NO_THROW(step(x));
  context().setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                                at::Float32Precision::NONE);
  context().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL,
                                at::Float32Precision::NONE);
}

}  // namespace ambient_test
}  // namespace antegrad::testing
