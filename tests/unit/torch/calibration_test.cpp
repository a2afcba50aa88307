// Rates of this machine: measured once, then read from a file.

#include "measure/calibration.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "measure/samples.h"
#include "support/bits.h"
#include "support/folder.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace calibration_test {

Graph product_and_draw() {
  JointGraph b("rates");
  const auto x = b.primal(dense({64, 64}));
  const auto y = b.call("aten::mm.default", {x, x}, dense({64, 64}));
  b.draw("aten::bernoulli.p", {y}, {attr::Input{}, 0.5, attr::None{}},
         std::vector{dense({64, 64})});
  return b.finish();
}

TEST(Calibration, MeasuresTheClassesOfAGraph) {
  const TemporaryFolder folder;
  const auto machine = measuring::calibrated_machine(product_and_draw(), folder.path());
  std::vector<std::string> classes;
  for (const auto& [kernel, rate] : machine.rates) {
    classes.push_back(kernel);
    EXPECT_GE(rate.points.size(), 2U) << kernel;
    EXPECT_EQ(rate.call_seconds, 0) << kernel;
  }
  EXPECT_EQ(classes, (std::vector<std::string>{"draw f32", "pointwise f32", "product f32"}));
}

// A file that a process reads decides, whatever this machine would measure.
TEST(Calibration, ReadsTheFileInsteadOfMeasuring) {
  const TemporaryFolder folder, other;
  const auto file = folder / "kernel_rates.json", copy = other / "kernel_rates.json";
  measuring::calibrated_machine(product_and_draw(), folder.path());
  std::ifstream in(file);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const std::string seconds = R"("call": 0.0,)";
  ASSERT_NE(text.find(seconds), std::string::npos) << text;
  text.replace(text.find(seconds), seconds.size(), R"("call": 0.25,)");
  std::ofstream(copy) << text;
  const auto machine = measuring::calibrated_machine(product_and_draw(), other.path());
  EXPECT_TRUE(std::ranges::any_of(
      machine.rates, [](const auto& rate) { return rate.second.call_seconds == 0.25; }));
}

TEST(Calibration, ADamagedFileIsAWarningAndReplaced) {
  const TemporaryFolder folder;
  std::ofstream(folder / "kernel_rates.json") << "{";
  ::testing::internal::CaptureStderr();
  const auto machine = measuring::calibrated_machine(product_and_draw(), folder.path());
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("is damaged"), std::string::npos);
  EXPECT_EQ(machine.rates.size(), 3U);
  EXPECT_GT(std::filesystem::file_size(folder / "kernel_rates.json"), 100U);
}

TEST(Calibration, LeavesGeneratorsAsTheyWere) {
  const TemporaryFolder folder;
  const auto state = at::globalContext().defaultGenerator(at::kCPU).clone();
  measuring::calibrated_machine(product_and_draw(), folder.path());
  EXPECT_TRUE(same_bits(at::rand({3}), at::rand({3}, state)));
}

// Runs the two smallest samples of a class, whose work grows.
void expect_samples(const KernelClass& kernel) {
  SCOPED_TRACE(to_string(kernel));
  double last = 0;
  for (size_t size = 0; size < 2; ++size) {
    const auto sample = measuring::sample_of(kernel, at::kCPU, size);
    EXPECT_EQ(sample.has_value(), kernel.kind != KernelKind::transfer);  // a GPU has these
    if (!sample) continue;
    EXPECT_GE(sample->work, last);
    last = sample->work;
    sample->call();
  }
}

TEST(Samples, CoverAllKindsAndForms) {
  for (size_t i = 0; i < kKernelKinds.size(); ++i) {
    for (size_t form = 0; form < kKernelForms.size(); ++form) {
      expect_samples(
          {static_cast<KernelKind>(i), DType::f32, false, static_cast<KernelForm>(form)});
    }
  }
}

}  // namespace calibration_test
}  // namespace antegrad::testing
