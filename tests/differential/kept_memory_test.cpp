// Heap memory that a compiled program holds while it lives.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "support/bits.h"

namespace antegrad::testing {
namespace kept_memory_test {

using List = std::vector<at::Tensor>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers replace the allocator, and mallinfo2() does not see theirs.
constexpr bool kOwnHeap = false;
#else
constexpr bool kOwnHeap = true;
#endif

double heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// Operators with lists, numbers and several results, in each of many blocks.
List deep(const List& a) {
  auto x = a[0];
  for (int i = 0; i < 100; ++i) {
    const auto halves = at::cat({x, x * 0.5}, 1).chunk(2, 1);
    x = at::layer_norm(at::addmm(a[2], halves[0], a[1]), {8}).transpose(0, 1).reshape({8, 8}) +
        at::softmax(halves[1], -1);
  }
  return {x};
}

List inputs() {
  at::manual_seed(3);
  return {at::randn({8, 8}).set_requires_grad(true), at::randn({8, 8}).set_requires_grad(true),
          at::randn({8}).set_requires_grad(true)};
}

TEST(KeptMemory, IsAtMostHalfAKibibyteForEachNode) {
  if (!kOwnHeap) GTEST_SKIP() << "the heap is a sanitizer's";
  const auto arguments = inputs();
  auto first = antegrad::compile(&deep);  // fills tables of the process
  first(arguments)[0].sum().backward();
  const auto before = heap_bytes();
  auto second = antegrad::compile(&deep);
  second.warmup(arguments);
  const auto kept = heap_bytes() - before;
  const auto nodes = static_cast<double>(second.report().programs.front().joint_nodes);
  EXPECT_GT(nodes, 1000);
  EXPECT_LT(kept / nodes, 512);
}

TEST(KeptMemory, BackwardsOfOtherFormsComeOfWhatIsKept) {
  auto step = antegrad::compile(&deep);
  for (size_t wanted = 0; wanted < 3; ++wanted) {
    const auto arguments = inputs();
    const auto expected = torch::autograd::grad({deep(arguments)[0].sum()}, {arguments[wanted]});
    const auto found = torch::autograd::grad({step(arguments)[0].sum()}, {arguments[wanted]});
    EXPECT_TRUE(same_bits(found, expected));
  }
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace kept_memory_test
}  // namespace antegrad::testing
