#include "higher/orders.h"

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace {

// The same numbers each time: sums with weights that differ by position.
at::Tensor weights(const at::Tensor& like) {
  return (at::arange(like.numel(), like.options().requires_grad(false).dtype(at::kDouble)) * 0.37 +
          0.5)
      .sin()
      .reshape(like.sizes())
      .to(like.scalar_type());
}

at::Tensor weighed(const List& tensors, bool nonlinear) {
  at::Tensor sum;
  for (const auto& tensor : tensors) {
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    auto part = (tensor * weights(tensor)).sum();
    if (nonlinear) part = part + (tensor * tensor).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace

List gradients_up_to(int orders, const ListFunction& function, const List& inputs, bool nonlinear) {
  at::manual_seed(11);
  auto last = function(inputs);
  List variables;
  for (const auto& input : inputs) {
    if (input.requires_grad()) variables.push_back(input);
  }
  List all = last;
  for (int order = 1; order <= orders; ++order) {
    const auto sum = weighed(last, nonlinear);
    if (!sum.defined()) break;
    last = torch::autograd::grad({sum}, variables, {}, /*retain_graph=*/true,
                                 /*create_graph=*/order < orders, /*allow_unused=*/true);
    all.insert(all.end(), last.begin(), last.end());
  }
  for (auto& tensor : all) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  all.push_back(generator_state());
  return all;
}

void expect_higher_orders(int orders, const ListFunction& function, const List& inputs,
                          bool nonlinear) {
  const auto eager = gradients_up_to(orders, function, inputs, nonlinear);
  for (const auto lowering : {Lowering::off, Lowering::exact}) {
    auto step = compile(function, Options()
                                      .with_verify_graphs(true)
                                      .with_lowering(lowering)
                                      .with_keep_slow_kernels(true)
                                      .with_higher_derivatives(true));
    for (int call = 0; call < 2; ++call) {
      const auto found = gradients_up_to(
          orders, [&](const List& list) { return step(list); }, inputs, nonlinear);
      ASSERT_EQ(found.size(), eager.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(same_bits(found[i], eager[i]))
            << "tensor " << i << " of call " << call << ", lowering "
            << (lowering == Lowering::off ? "off" : "exact");
      }
    }
    const auto report = step.report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_EQ(report.compiled_calls, 2);
  }
}

}  // namespace antegrad::testing
