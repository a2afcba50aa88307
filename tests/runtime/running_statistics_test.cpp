// The buffers of batch norms: how they are copied, and what a program may write over.

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/cuda.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/utils.h>

#include <functional>

#include "runtime/failing_ops.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace running_statistics_test {

namespace nn = torch::nn;

using List = std::vector<at::Tensor>;

// Calls of the copying operators on the calling thread. What _foreach_copy_ calls is not counted.
struct Copies {
  int64_t single = 0, together = 0;
  int64_t depth = 0;
};
thread_local Copies copies;

bool copies_together(const at::RecordFunction& call) {
  return call.name() == std::string("aten::_foreach_copy_");
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& call) {
  if (copies_together(call)) {
    ++copies.together;
    ++copies.depth;
  } else if (call.name() == std::string("aten::copy_") && copies.depth == 0) {
    ++copies.single;
  }
  return nullptr;
}

void leave(const at::RecordFunction& call, at::ObserverContext* /*context*/) {
  if (copies_together(call)) --copies.depth;
}

Copies copies_of(const std::function<void()>& run) {
  copies = {};
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&enter, &leave));
  run();
  at::removeCallback(handle);
  return copies;
}

constexpr int kNorms = 6;

nn::Sequential network(c10::Device device) {
  torch::manual_seed(0);
  nn::Sequential layers;
  for (int i = 0; i < kNorms; ++i) {
    layers->push_back(nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)));
    layers->push_back(nn::BatchNorm2d(4));
  }
  layers->to(device);
  return layers;
}

void expect_few_copies(c10::Device device) {
  auto module = network(device), eager_module = network(device);
  auto step = antegrad::compile(module, [&](const at::Tensor& x) { return module->forward(x); });
  const auto x = at::randn({2, 4, 6, 6}, at::device(device));
  step(x).sum().backward();
  eager_module->forward(x).sum().backward();
  const auto found = copies_of([&] { step(x); });
  const auto expected = copies_of([&] { eager_module->forward(x); });
  EXPECT_EQ(found.single, expected.single);
  // Statistics before and after, and the number of batches.
  EXPECT_EQ(found.together, 3);
  EXPECT_TRUE(same_bits(module->buffers(), eager_module->buffers()));
  for (size_t i = 0; i < module->buffers().size(); ++i) {
    EXPECT_EQ(module->buffers()[i]._version(), eager_module->buffers()[i]._version());
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(RunningStatistics, ThoseOfAllNormsAreCopiedAtOnce) { expect_few_copies(at::kCPU); }

TEST(RunningStatistics, ThoseOfAllNormsAreCopiedAtOnceOnAGpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  expect_few_copies(c10::Device(at::kCUDA, 0));
}

TEST(RunningStatistics, AreAsBeforeIfALaterKernelFails) {
  auto module = network(at::kCPU);
  auto step =
      antegrad::compile(module, [&](const at::Tensor& x) { return doubled(module->forward(x)); });
  const auto x = at::randn({2, 4, 6, 6});
  step(x);
  List before;
  for (const auto& buffer : module->buffers()) before.push_back(buffer.clone());
  {
    const Fault::Scope fault(Fault::forward, std::make_exception_ptr(ForeignError{1}));
    EXPECT_ANY_THROW(step(x));
  }
  EXPECT_TRUE(same_bits(module->buffers(), before));
  step(x);
  EXPECT_FALSE(same_bits(module->buffers(), before));
}

// What reads the old statistics: nodes behind the norm, the caller, the backward.
TEST(RunningStatistics, AreReadBeforeAndAfterTheyAreWritten) {
  const auto norm = [](const List& a) {
    return at::batch_norm(a[0], {}, {}, a[1], a[2], true, 0.1, 1e-5, false);
  };
  const List inputs = {at::randn({5, 3}).requires_grad_(), at::randn({3}), at::rand({3})};
  const std::vector<Function> functions = {
      [&](const List& a) -> List {
        const auto old = a[1] + 0;
        return {norm(a) * old, a[1] * 2};
      },
      [&](const List& a) -> List {
        const auto old = a[1].clone();
        const auto y = norm(a);
        return {y + old, old};
      },
      [&](const List& a) -> List {
        const auto mean = a[1].clone();
        const auto scaled = a[0] * mean;  // the backward reads the old mean
        return {scaled + norm(a), a[2].view({3, 1})};
      },
      [&](const List& a) -> List { return {norm(a) + norm(a)}; },
      [&](const List& a) -> List {
        a[1].mul_(2);
        const auto y = norm(a);
        return {y, a[1] + a[2]};
      },
  };
  for (const auto& function : functions) expect_function_parity(function, inputs);
}

}  // namespace running_statistics_test
}  // namespace antegrad::testing
