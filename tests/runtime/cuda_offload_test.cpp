// Saved tensors offloaded from a GPU between forward and backward. Skipped without a GPU. For the
// CPU see tests/differential/offload_test.cpp.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <antegrad/antegrad.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <functional>
#include <utility>
#include <vector>

#include "hooks/pinned_copy.h"
#include "runtime/at_once.h"
#include "support/bits.h"
#include "support/cuda_graph.h"
#include "torch_compat/allocation_watch.h"

namespace antegrad::testing {
namespace cuda_offload_test {

using compress::offload_to_host;
using compress::offloaded_bytes;
using List = std::vector<at::Tensor>;

constexpr int64_t kMiB = int64_t{1} << 20;

class CudaOffload : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::cuda::synchronize();
    ASSERT_EQ(offloaded_bytes(), 0);
  }
  void TearDown() override { EXPECT_EQ(offloaded_bytes(), 0); }

  static at::Tensor randn(at::IntArrayRef sizes) { return at::randn(sizes, at::device(at::kCUDA)); }
  static at::Tensor leaf(at::IntArrayRef sizes) { return randn(sizes).requires_grad_(); }
  static c10::Stream new_stream() {
    const c10::impl::VirtualGuardImpl device(at::kCUDA);
    return device.getNewStream(device.getDevice());
  }

  // The tensor is moved in, as a program does at its last use, or kept.
  static at::Tensor offload(at::Tensor tensor) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("antegrad::offload", "");
    torch::jit::Stack stack;
    stack.emplace_back(std::move(tensor));
    stack.emplace_back(int64_t{0});
    stack.emplace_back("");
    op.callBoxed(stack);
    return stack.at(0).toTensor();
  }
  static at::Tensor fetch(const at::Tensor& handle, const at::Tensor& like) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("antegrad::fetch", "")
                               .typed<at::Tensor(const at::Tensor&, at::IntArrayRef,
                                                 at::IntArrayRef, at::ScalarType, at::Device)>();
    return op.call(handle, like.sizes(), like.strides(), like.scalar_type(), like.device());
  }
};

// fetch() in two parts.
at::Tensor fetch_start(const at::Tensor& handle, const at::Tensor& like) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::fetch_start", "")
                             .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                               at::ScalarType, at::Device)>();
  return op.call(handle, like.sizes(), like.strides(), like.scalar_type(), like.device());
}
at::Tensor fetch_wait(const at::Tensor& started, const at::Tensor& handle) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::fetch_wait", "")
                             .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(started, handle);
}

at::Tensor network(const at::Tensor& x, const at::Tensor& w) {
  auto h = x;
  for (int i = 0; i < 6; ++i) h = (h.matmul(w) * 0.03).tanh();
  return h;
}

TEST_F(CudaOffload, GradientsKeepTheirBits) {
  const auto w = leaf({512, 512});
  const auto x = randn({512, 512});
  const auto fn = [&](const at::Tensor& in) { return network(in, w); };
  const auto expected = torch::autograd::grad(List{fn(x).sum()}, List{w})[0];
  for (const auto filter : {HookFilter::donated, HookFilter::all}) {
    auto step = antegrad::compile(
        fn, Options().with_verify_graphs(true).with_saved_tensors_hooks_filtering_mode(filter));
    const SavedTensorHooks scope(offload_to_host());
    for (int n = 0; n < 5; ++n) {
      auto loss = step(x).sum();
      EXPECT_GE(offloaded_bytes(), 5 * kMiB);
      EXPECT_TRUE(same_bits(
          torch::autograd::grad(List{loss}, List{w}, {}, /*retain_graph=*/true)[0], expected));
      EXPECT_TRUE(same_bits(torch::autograd::grad(List{loss}, List{w})[0], expected));
      EXPECT_EQ(offloaded_bytes(), 0);
    }
    EXPECT_EQ(step.report().eager_calls, 0);
    EXPECT_EQ(step.report().programs.size(), 1U);
  }
}

TEST_F(CudaOffload, EveryDtypeAndLayoutComesBackToTheBit) {
  const auto x = randn({65, 33});
  const List all = {
      x,
      x.t(),
      x.to(at::kDouble),
      x.to(at::kBFloat16),
      x > 0,
      x.to(at::kLong),
      at::complex(x, x),
      at::randn({2, 3, 5, 7}, at::device(at::kCUDA)).contiguous(at::MemoryFormat::ChannelsLast),
      at::full({}, 3, at::device(at::kCUDA))};
  for (const auto& tensor : all) {
    const auto handle = offload(tensor);
    EXPECT_TRUE(handle.is_cpu());
    for (int again = 0; again < 2; ++again) {
      const auto back = fetch(handle, tensor);
      EXPECT_TRUE(same_bits(back, tensor));
      EXPECT_EQ(back.strides(), tensor.strides());
    }
  }
  EXPECT_THROW(fetch(offload(x), x.cpu()), HookError);
}

// The copies take far longer than the kernels after them. If memory is freed too early, the copies
// contain what these kernels write.
TEST_F(CudaOffload, KernelsThatWriteToFreedMemoryDoNotReachTheCopies) {
  constexpr int kTensors = 12;
  const int64_t elements = 48 * kMiB / 4;
  const auto seed = randn({elements});
  const auto value = [&](int i) { return seed + i; };
  List handles;
  for (int i = 0; i < kTensors; ++i) {
    handles.push_back(offload(value(i)));
    // Reuses the freed memory of that size and overwrites it.
    for (int junk = 0; junk < 3; ++junk) at::full({elements}, -1.0, seed.options());
  }
  for (int i = kTensors - 1; i >= 0; --i) {
    EXPECT_TRUE(same_bits(fetch(handles[i], seed), value(i))) << i;
  }
}

// Another owner of the tensor may write to it at once.
TEST_F(CudaOffload, AWriteToATensorThatSomebodyHoldsComesAfterItsCopy) {
  for (int n = 0; n < 5; ++n) {
    const auto tensor = randn({64 * kMiB / 4});
    const auto expected = tensor.clone();
    const auto handle = offload(tensor);
    tensor.fill_(7);
    EXPECT_TRUE(same_bits(fetch(handle, tensor), expected));
  }
}

// Handles may die before their copies are done. The memory is reused only after these.
TEST_F(CudaOffload, HandlesMayDieAtOnce) {
  const int64_t elements = 48 * kMiB / 4;
  for (int n = 0; n < 5; ++n) {
    const auto kept_value = randn({elements});
    offload(randn({elements}));
    const auto kept = offload(kept_value.clone());
    offload(randn({elements}));
    at::full({elements}, -1.0, kept_value.options());
    EXPECT_TRUE(same_bits(fetch(kept, kept_value), kept_value));
  }
}

TEST_F(CudaOffload, CopiesAheadKeepTheirBits) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({4096, 1024});
  const auto fn = [&](const at::Tensor& in) { return network(in, w); };
  const auto expected = torch::autograd::grad(List{fn(x).sum()}, List{w})[0];
  for (const int64_t ahead : {0, 1, 2, 20}) {
    SCOPED_TRACE(ahead);
    auto step = antegrad::compile(
        fn, Options().with_verify_graphs(true).with_activation_reload_prefetch(ahead));
    const SavedTensorHooks scope(offload_to_host());
    for (int n = 0; n < 5; ++n) {
      auto loss = step(x).sum();
      EXPECT_TRUE(same_bits(
          torch::autograd::grad(List{loss}, List{w}, {}, /*retain_graph=*/true)[0], expected));
      EXPECT_TRUE(same_bits(torch::autograd::grad(List{loss}, List{w})[0], expected));
    }
    EXPECT_EQ(offloaded_bytes(), 0);
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

TEST_F(CudaOffload, ABudgetHoldsWithCopiesAhead) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({16 * 1024, 1024});  // 64 MiB
  const auto fn = [&](const at::Tensor& in) { return network(in, w).sum(); };
  for (const double share : {0.0, 0.3, 0.6}) {
    auto step = antegrad::compile(fn, Options().with_memory_share(share).with_budget_compressors(
                                          {Compressor::offload_to_host}));
    torch::autograd::grad(List{step(x)}, List{w});
    torch::cuda::synchronize();
    const torch_compat::AllocationWatch watch(at::kCUDA);
    torch::autograd::grad(List{step(x)}, List{w});
    const auto program = step.report().programs.at(0);
    EXPECT_LE(program.predicted_peak_bytes, program.memory_budget_bytes);
    EXPECT_LE(watch.peak_bytes(), program.memory_budget_bytes + hooks::kInFlightBytes + 64 * kMiB);
  }
}

// The memory of a copy back may still be used by earlier kernels, and by later ones only after it.
TEST_F(CudaOffload, CopiesAheadKeepOutOfOtherKernels) {
  const int64_t elements = 48 * kMiB / 4;
  const auto value = randn({elements});
  const auto handle = offload(value.clone());
  for (int n = 0; n < 5; ++n) {
    auto before = value + 1;
    const auto sum = before.clone();
    before.reset();  // its memory is the copy's
    const auto started = fetch_start(handle, value);
    const auto other = value * 2;
    EXPECT_TRUE(same_bits(fetch_wait(started, handle), value));
    EXPECT_TRUE(same_bits(sum, value + 1));
    EXPECT_TRUE(same_bits(other, value * 2));
  }
}

// A call that fails in between drops the tensor and the handle.
TEST_F(CudaOffload, ACopyAheadThatNobodyReadsKeepsItsMemory) {
  const int64_t elements = 256 * kMiB / 4;
  const auto value = randn({elements});
  for (int n = 0; n < 5; ++n) {
    const auto handle = offload(value.clone());
    fetch_start(handle, value);
  }
  const auto full = at::full({elements}, 3.0, value.options());
  torch::cuda::synchronize();
  EXPECT_TRUE(same_bits(full, at::full({elements}, 3.0, value.options())));
}

TEST_F(CudaOffload, LittleMoreThanTheWindowIsHeldOnTheDevice) {
  const int64_t bytes = 32 * kMiB;
  List handles;
  const torch_compat::AllocationWatch watch(at::kCUDA);
  for (int i = 0; i < 20; ++i) handles.push_back(offload(randn({bytes / 4})));
  EXPECT_LE(watch.live_bytes(), hooks::kInFlightBytes + bytes);
  EXPECT_LE(watch.peak_bytes(), hooks::kInFlightBytes + 3 * bytes);
  EXPECT_EQ(offloaded_bytes(), 20 * bytes);
  handles.clear();
  EXPECT_EQ(watch.live_bytes(), 0);
}

TEST_F(CudaOffload, AStepTakesLessOfTheDevice) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({16 * 1024, 1024});  // 64 MiB
  const auto fn = [&](const at::Tensor& in) {
    auto h = in;
    for (int i = 0; i < 8; ++i) h = (h.matmul(w) * 0.03).tanh();
    return h.sum();
  };
  const auto measured = [&](auto& step) {
    torch::autograd::grad(List{step(x)}, List{w});
    torch::cuda::synchronize();
    const torch_compat::AllocationWatch watch(at::kCUDA);
    const auto gradient = torch::autograd::grad(List{step(x)}, List{w})[0];
    return std::pair(watch.peak_bytes(), gradient);
  };
  auto plain = antegrad::compile(fn), offloading = antegrad::compile(fn);
  const auto [peak, expected] = measured(plain);
  const SavedTensorHooks scope(offload_to_host());
  const auto [less, found] = measured(offloading);
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_LT(less, peak * 7 / 10);
  EXPECT_EQ(offloading.report().eager_calls, 0);
}

TEST_F(CudaOffload, StreamsOfForwardAndBackwardMayDiffer) {
  const auto w = leaf({1024, 1024});
  const auto x = randn({1024, 1024});
  const auto fn = [&](const at::Tensor& in) { return network(in, w); };
  auto step = antegrad::compile(fn);
  const auto expected = torch::autograd::grad(List{fn(x).sum()}, List{w})[0];
  const SavedTensorHooks scope(offload_to_host());
  for (int n = 0; n < 5; ++n) {
    const auto stream = new_stream();
    torch::cuda::synchronize();
    at::Tensor loss;
    {
      const c10::StreamGuard guard(stream);
      loss = step(x).sum();
    }
    const auto found = torch::autograd::grad(List{loss}, List{w})[0];
    torch::cuda::synchronize();
    EXPECT_TRUE(same_bits(found, expected));
  }
  // Fetched on a stream unrelated to the one that offloaded it.
  const auto value = randn({64 * kMiB / 4});
  torch::cuda::synchronize();
  const auto handle = offload(value.clone());
  const auto other = new_stream();
  c10::Event done(at::kCUDA);
  at::Tensor back;
  {
    const c10::StreamGuard guard(other);
    back = fetch(handle, value);
    done.record(other);
  }
  done.synchronize();
  EXPECT_TRUE(same_bits(back, value));
}

TEST_F(CudaOffload, ThreadsAtOnce) {
  const auto w = leaf({512, 512});
  const auto x = randn({512, 512});
  const auto fn = [&](const at::Tensor& in) { return network(in, w); };
  auto step = antegrad::compile(fn);
  const auto expected = torch::autograd::grad(List{fn(x).sum()}, List{w})[0];
  torch::cuda::synchronize();
  at_once(3, [&](int) {
    const c10::StreamGuard guard(new_stream());
    const SavedTensorHooks scope(offload_to_host());
    for (int n = 0; n < 10; ++n) {
      const auto found = torch::autograd::grad(List{step(x).sum()}, List{w})[0];
      EXPECT_TRUE(same_bits(found, expected));
    }
  });
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(CudaOffload, TheBoundHoldsAndLeavesEverythingAsItWas) {
  const auto x = leaf({1024, 1024});
  const auto counter = at::zeros({4}, at::device(at::kCUDA));
  auto step = antegrad::compile([](const at::Tensor& in, at::Tensor counter) {
    counter.add_(1);
    return at::dropout(in.exp(), 0.5, true).exp().sum();
  });
  torch::manual_seed(7);
  const auto state = generator_state(at::kCUDA);
  {
    const SavedTensorHooks scope(offload_to_host({.max_bytes = 5 * kMiB}));
    EXPECT_THROW(step(x, counter), HookError);
  }
  EXPECT_EQ(offloaded_bytes(), 0);
  EXPECT_TRUE(same_bits(counter, at::zeros_like(counter)));
  EXPECT_TRUE(same_bits(state, generator_state(at::kCUDA)));
  const SavedTensorHooks scope(offload_to_host());
  step(x, counter).backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(CudaOffload, CudaGraphsAreRefused) {
  const auto value = randn({1024, 1024});
  const auto handle = offload(value.clone());
  EXPECT_THROW(CudaGraph([&] { offload(value + 1); }), HookError);
  EXPECT_THROW(CudaGraph([&] { fetch(handle, value); }), HookError);
  EXPECT_TRUE(same_bits(fetch(handle, value), value));
}

}  // namespace cuda_offload_test
}  // namespace antegrad::testing
