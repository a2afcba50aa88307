// Where passes run: on one GPU in its current stream, or libtorch runs them, with the reason.

#include <antegrad/antegrad.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "scenario.h"

namespace antegrad::testing {
namespace backward_devices_test {

constexpr const char* kStreams = "several streams, or one that is not current";

std::vector<c10::Device> gpus() {
  std::vector<c10::Device> found;
  if (devices().size() < 2) return found;
  const auto count = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
  for (c10::DeviceIndex i = 0; i < count; ++i) found.emplace_back(c10::kCUDA, i);
  return found;
}

c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

void wait_for(c10::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

List leaves_on(c10::Device device) {
  List made;
  for (int i = 0; i < 2; ++i) {
    made.push_back(at::randn({64, 64}).to(device).requires_grad_());
  }
  return made;
}
at::Tensor loss_of(const List& p) { return p[0].mm(p[1]).tanh().mul(p[0].exp()).sum(); }

TEST(CompiledBackwardDevices, OtherDevicesAreLeftToLibtorchAndCounted) {
  CompiledBackward scope(exact_backward());
  const auto p = at::empty({3, 4}, at::kMeta).requires_grad_();
  (p * 2).sin().sum().backward();
  EXPECT_EQ(p.grad().sizes(), p.sizes());
  EXPECT_TRUE(p.grad().is_meta());
  const auto report = scope.report();
  EXPECT_EQ(report.passes, 0) << report;
  EXPECT_EQ(report.left_to_libtorch.at("a device other than the CPU and CUDA's"), 1) << report;
}

TEST(CompiledBackwardDevices, PartsOnTheHostAreInThePass) {
  if (gpus().empty()) GTEST_SKIP() << "no CUDA device";
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto on_host = leaves_on(at::kCPU), on_device = leaves_on(gpus()[0]);
    const auto h = loss_of(on_device).cpu() * on_host[0].sin();
    (h.to(gpus()[0]) * on_device[1]).sum().backward();
    notes.add_gradients(on_host);
    notes.add_gradients(on_device);
  });
  EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
}

TEST(CompiledBackwardDevices, AStreamThatIsCurrentInForwardAndBackwardRunsPrograms) {
  if (gpus().empty()) GTEST_SKIP() << "no CUDA device";
  const auto device = gpus()[0];
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto p = leaves_on(device);
    wait_for(device);
    const c10::StreamGuard guard(new_stream(device));
    for (int step = 0; step < 3; ++step) loss_of(p).backward();
    wait_for(device);
    notes.add_gradients(p);
  });
  EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
  EXPECT_GT(report.nodes_compiled, 0) << report;
}

// The forward ran in another stream than the one in which the pass is asked for.
TEST(CompiledBackwardDevices, OtherStreamsAreLeftToLibtorchAndCounted) {
  if (gpus().empty()) GTEST_SKIP() << "no CUDA device";
  const auto device = gpus()[0];
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto p = leaves_on(device);
    wait_for(device);
    at::Tensor loss;
    {
      const c10::StreamGuard guard(new_stream(device));
      loss = loss_of(p);
    }
    wait_for(device);
    loss.backward();
    wait_for(device);
    notes.add_gradients(p);
  });
  EXPECT_EQ(report.passes, 0) << report;
  EXPECT_EQ(report.left_to_libtorch.at(kStreams), 3) << report;
}

TEST(CompiledBackwardDevices, BranchesInSeveralStreamsAreLeftToLibtorch) {
  if (gpus().empty()) GTEST_SKIP() << "no CUDA device";
  const auto device = gpus()[0];
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto p = leaves_on(device);
    wait_for(device);
    at::Tensor branch;
    {
      const c10::StreamGuard guard(new_stream(device));
      branch = loss_of(p);
    }
    wait_for(device);
    (branch + loss_of(p)).backward();
    wait_for(device);
    notes.add_gradients(p);
  });
  EXPECT_EQ(report.left_to_libtorch.at(kStreams), 3) << report;
}

TEST(CompiledBackwardDevices, AGpuThatIsNotCurrentRunsPrograms) {
  if (gpus().size() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto p = leaves_on(gpus()[1]);
    for (int step = 0; step < 3; ++step) loss_of(p).backward();
    EXPECT_EQ(c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice(), gpus()[0]);
    notes.add_gradients(p);
  });
  EXPECT_TRUE(report.left_to_libtorch.empty()) << report;
  EXPECT_GT(report.nodes_compiled, 0) << report;
}

TEST(CompiledBackwardDevices, SeveralGpusAreLeftToLibtorchAndCounted) {
  if (gpus().size() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const auto report = expect_as_libtorch([](Notes& notes) {
    const auto first = leaves_on(gpus()[0]), second = leaves_on(gpus()[1]);
    (first[0].mm(first[1]).tanh().to(gpus()[1]) * second[0]).sum().backward();
    wait_for(gpus()[0]);
    notes.add_gradients(first);
    notes.add_gradients({second[0]});
  });
  EXPECT_EQ(report.left_to_libtorch.at("several devices"), 3) << report;
}

}  // namespace backward_devices_test
}  // namespace antegrad::testing
