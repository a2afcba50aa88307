// What passes with create_graph take and free.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/memory.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>
#include <string>

#include "higher/orders.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace higher_memory_test {

using torch::autograd::grad;

Options higher(Lowering lowering) {
  return Options()
      .with_verify_graphs(true)
      .with_lowering(lowering)
      .with_keep_slow_kernels(true)
      .with_kept_memory(KeptMemory::free)
      .with_higher_derivatives(true);
}

constexpr int64_t kWidth = 128, kBatch = 1024, kLayers = 6;
constexpr int64_t kActivation = kWidth * kBatch * 4;

at::Tensor layers(const List& p) {
  auto h = p[0];
  for (size_t i = 1; i < p.size(); ++i) h = h.mm(p[i]).tanh();
  return h;
}
List leaves() {
  at::manual_seed(0);
  List p{at::randn({kBatch, kWidth}).requires_grad_()};
  for (int i = 0; i < kLayers; ++i)
    p.push_back((at::randn({kWidth, kWidth}) / 16).requires_grad_());
  return p;
}

/// The peak of a pass with create_graph, and of the one through its gradients.
int64_t peak_of_step(const ListFunction& function, const List& p) {
  const auto y = function(p)[0];
  const MemoryMeter meter;
  const auto slope = grad({y}, {p[0]}, {at::ones_like(y)}, /*retain_graph=*/true,
                          /*create_graph=*/true)[0];
  slope.square().sum().backward();
  for (const auto& leaf : p) leaf.mutable_grad() = at::Tensor();
  return meter.peak_bytes();
}

TEST(HigherMemory, APassFreesTheIntermediatesOfTheCallBeforeItsProgramRuns) {
  const auto p = leaves();
  const ListFunction function = [](const List& xs) -> List { return {layers(xs)}; };
  const auto eager = peak_of_step(function, p);
  for (const auto lowering : {Lowering::off, Lowering::exact}) {
    auto compiled = compile(function, higher(lowering));
    peak_of_step([&](const List& xs) { return compiled(xs); }, p);
    const auto found = peak_of_step([&](const List& xs) { return compiled(xs); }, p);
    EXPECT_LE(found, eager + kActivation / 8) << eager / kActivation << " activations in eager";
    EXPECT_EQ(compiled.report().eager_calls, 0);
  }
}

/// A pass with create_graph that fails behind the node of the call.
void fail_behind(const at::Tensor& y, const at::Tensor& x) {
  EXPECT_THROW(grad({y}, {x}, {at::ones_like(y)}, true, true), std::runtime_error);
}

TEST(HigherMemory, AFailedPassLeavesTheGraphUsable) {
  const ListFunction function = [](const List& xs) -> List {
    return {at::dropout(xs[0].mm(xs[1]).tanh(), 0.3, /*train=*/true).sin() * xs[0].exp()};
  };
  at::manual_seed(1);
  const auto x = at::randn({16, 16}).requires_grad_(), w = at::randn({16, 16}).requires_grad_();
  auto compiled = compile(function, higher(Lowering::exact));
  bool fails = false;
  const auto called = [&](const ListFunction& callee) {
    at::manual_seed(2);
    auto inside = x * 1;
    inside.register_hook([&fails](const at::Tensor&) {
      if (fails) throw std::runtime_error("as the test asked");
    });
    return callee(List{inside, w})[0];
  };
  const auto expected = [&] {
    const auto y = called(function);
    return grad({y.sum()}, {x, w});
  }();
  for (const bool again_with_graph : {false, true}) {
    const auto y = called([&](const List& xs) { return compiled(xs); });
    fails = true;
    fail_behind(y, x);
    fail_behind(y, x);
    fails = false;
    const auto state = generator_state();
    const auto found = grad({y.sum()}, {x, w}, {}, /*retain_graph=*/true, again_with_graph);
    EXPECT_TRUE(same_bits(found, expected)) << again_with_graph;
    EXPECT_TRUE(at::equal(state, generator_state()));
    EXPECT_TRUE(same_bits(grad({y.sum()}, {x, w}), expected)) << again_with_graph;
  }
}

TEST(HigherMemory, AFailedPassIsFollowedByOneOfPrograms) {
  const ListFunction function = [](const List& xs) -> List { return {xs[0].mm(xs[1]).tanh()}; };
  at::manual_seed(1);
  const auto x = at::randn({8, 8}).requires_grad_(), w = at::randn({8, 8}).requires_grad_();
  auto compiled = compile(function, higher(Lowering::exact));
  auto inside = x * 1;
  bool fails = true;
  inside.register_hook([&fails](const at::Tensor&) {
    if (fails) throw std::runtime_error("as the test asked");
  });
  const auto y = compiled(List{inside, w})[0];
  fail_behind(y, x);
  fails = false;
  const auto expected = grad({function(List{x, w})[0].sum()}, {x, w});
  const CompiledBackward scope;
  EXPECT_TRUE(same_bits(grad({y.sum()}, {x, w}), expected));
  EXPECT_EQ(scope.report().regions.size(), 1U) << scope.report();
}

}  // namespace higher_memory_test
}  // namespace antegrad::testing
