// A compiled step as a profiler shows it.

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <mutex>

#include "support/parity.h"

namespace antegrad::testing {
namespace profile_test {

struct Range {
  std::string name;
  at::RecordScope scope;
  int64_t sequence_number;
};

std::mutex mutex;
std::vector<Range> ranges;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& record) {
  const std::lock_guard lock(mutex);
  ranges.push_back({record.name(), record.scope(), record.seqNr()});
  return nullptr;
}

// The ranges that `run` opens, in order.
template <class Run>
std::vector<Range> ranges_of(const Run& run) {
  ranges.clear();
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(&note));
  run();
  at::removeCallback(handle);
  return std::exchange(ranges, {});
}

const Range* find(const std::vector<Range>& all, const std::string& name) {
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const Range& r) { return r.name == name; });
  return it == all.end() ? nullptr : &*it;
}

TEST(Profile, ForwardAndBackwardCarryTheCallablesName) {
  const auto w = at::randn({3}).set_requires_grad(true);
  auto step = antegrad::compile(
      [&](const at::Tensor& x) { return (x * w).sin().sum(); },
      Options().with_name("energy").with_audit(Audit::off).with_lowering(Lowering::off));
  const auto x = at::randn({3});
  step(x);
  const auto seen = ranges_of([&] { step(x).backward(); });
  const auto* forward = find(seen, "energy");
  const auto* backward = find(seen, "AntegradBackward:energy");
  ASSERT_NE(forward, nullptr);
  ASSERT_NE(backward, nullptr);
  EXPECT_EQ(forward->scope, at::RecordScope::FUNCTION);
  EXPECT_EQ(backward->scope, at::RecordScope::BACKWARD_FUNCTION);
  // A profiler matches forward and backward by this number.
  EXPECT_GE(forward->sequence_number, 0);
  EXPECT_EQ(forward->sequence_number, backward->sequence_number);
  // The operators of the program are inside the range.
  EXPECT_LT(forward, find(seen, "aten::sin"));
  EXPECT_TRUE(std::any_of(seen.begin() + (backward - seen.data()), seen.end(),
                          [](const Range& r) { return r.name.starts_with("aten::cos"); }));
  EXPECT_EQ(find(seen, "AntegradCapture:energy"), nullptr);
}

TEST(Profile, GeneratedKernelsAreRangesWithTheirNames) {
  const auto w = at::randn({64}).set_requires_grad(true);
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().exp(); },
                                Options().with_audit(Audit::off).with_keep_slow_kernels(true));
  const auto x = at::randn({64});
  const auto first = ranges_of([&] { step.warmup(x); });
  EXPECT_EQ(find(first, "aten::sin"), nullptr);  // nor in the comparison with libtorch's kernels
  const auto seen = ranges_of([&] { step(x).backward(at::ones({64})); });
  const auto report = step.report();
  const auto& kernels = report.programs.at(0).generated_kernels;
  ASSERT_EQ(kernels.size(), 2U);
  for (const auto& kernel : kernels) {
    EXPECT_NE(find(seen, "AntegradKernel:" + kernel.name), nullptr) << kernel.name;
  }
  EXPECT_EQ(find(seen, "aten::sin"), nullptr);
}

TEST(Profile, SuccessiveCallsHaveNumbersOfTheirOwn) {
  const auto w = at::randn({3}).set_requires_grad(true);
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); });
  const auto x = at::randn({3});
  const auto seen = ranges_of([&] {
    const auto a = step(x), b = step(x);
    b.backward();
    a.backward();
  });
  std::vector<int64_t> forward, backward;
  for (const auto& r : seen) {
    if (r.name == "step") forward.push_back(r.sequence_number);
    if (r.name == "AntegradBackward:step") backward.push_back(r.sequence_number);
  }
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward.size(), 2U);
  EXPECT_EQ(forward, backward);
}

TEST(Profile, CaptureAndCompilationAreRangesOfTheirOwn) {
  auto step =
      antegrad::compile([](const at::Tensor& x) { return x.sin(); }, Options().with_name("wave"));
  const auto x = at::randn({3});
  const auto first = ranges_of([&] { step.warmup(x); });
  EXPECT_NE(find(first, "AntegradCapture:wave"), nullptr);
  EXPECT_NE(find(first, "AntegradCompile:wave"), nullptr);
  // Operators on stand-ins are hidden: a profiler may read the data of tensors, or keep them.
  EXPECT_EQ(find(first, "aten::sin"), nullptr);
  const auto second = ranges_of([&] { step.warmup(x); });
  EXPECT_EQ(find(second, "AntegradCapture:wave"), nullptr);
  EXPECT_EQ(find(second, "AntegradCompile:wave"), nullptr);
}

TEST(Profile, WhatTheBackwardRunsAgainIsInARange) {
  const auto w = at::randn({64}).set_requires_grad(true);
  auto step = antegrad::compile(
      [&](const at::Tensor& x) { return (x * w).sin().exp().sum(); },
      Options().with_partition(Partitioner::min_cut).with_lowering(Lowering::off));
  const auto x = at::randn({64});
  step(x).backward();
  const auto seen = ranges_of([&] { step(x).backward(); });
  const auto* again = find(seen, "AntegradRecompute:aten::mul.Tensor");
  ASSERT_NE(again, nullptr);
  EXPECT_LT(find(seen, "AntegradBackward:step"), again);
  EXPECT_EQ((again + 1)->name, "aten::mul");
  EXPECT_GT(step.report().programs[0].recomputed.at("aten::mul.Tensor"), 0);
}

TEST(Profile, CapturedWhileAProfilerListensTheProgramIsTheSame) {
  const auto fn = [](const at::Tensor& x) { return (x.sin() * x).sum(); };
  auto quiet = antegrad::compile(fn), heard = antegrad::compile(fn);
  const auto x = at::randn({3});
  quiet.warmup(x);
  ranges_of([&] { heard.warmup(x); });
  EXPECT_EQ(quiet.report().programs[0].graph_hash, heard.report().programs[0].graph_hash);
}

TEST(Profile, LibtorchsProfilerShowsThem) {
  namespace profiler = torch::autograd::profiler;
  const auto w = at::randn({3}).set_requires_grad(true);
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); },
                                Options().with_name("shown"));
  const auto x = at::randn({3});
  step(x);
  profiler::enableProfilerLegacy(profiler::ProfilerConfig(profiler::ProfilerState::CPU));
  step(x).backward();
  const auto threads = profiler::disableProfilerLegacy();
  std::vector<std::string> names;
  for (const auto& events : threads) {
    for (const auto& event : events) names.emplace_back(event.name());
  }
  EXPECT_NE(std::find(names.begin(), names.end(), "shown"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "AntegradBackward:shown"), names.end());
}

TEST(Profile, NvtxShowsThem) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  namespace profiler = torch::autograd::profiler;
  const auto w = at::randn({3}, at::kCUDA).set_requires_grad(true);
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); });
  const auto x = at::randn({3}, at::kCUDA);
  profiler::enableProfilerLegacy(
      profiler::ProfilerConfig(profiler::ProfilerState::NVTX, /*report_input_shapes=*/true));
  step(x).backward();
  step(x).backward();
  profiler::disableProfilerLegacy();
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace profile_test
}  // namespace antegrad::testing
