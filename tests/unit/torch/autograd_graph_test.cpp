// Queries on libtorch's autograd graph.

#include "torch_compat/autograd_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "support/bits.h"

namespace antegrad::testing {
namespace autograd_graph_test {

at::Tensor leaf() { return at::randn({3}).requires_grad_(); }

TEST(AutogradGraph, AWalkFindsEachLeafOnce) {
  const auto x = leaf(), y = leaf();
  const auto reached = torch_compat::walk({x * y, x + y});
  EXPECT_EQ(reached.functions.size(), 2U);
  ASSERT_EQ(reached.leaves.size(), 2U);
  for (const auto& found : reached.leaves) EXPECT_TRUE(found.is_same(x) || found.is_same(y));
}

TEST(AutogradGraph, RunBackwardGivesWhatGradGives) {
  const auto x = leaf(), y = leaf();
  const auto z = (x * y).exp();
  const auto tangent = at::randn({3});
  const auto expected = torch::autograd::grad({z}, {x, y}, {tangent}, /*retain_graph=*/true);
  const auto found =
      torch_compat::run_backward({torch_compat::gradient_edge(z)}, {tangent},
                                 {torch_compat::gradient_edge(x), torch_compat::gradient_edge(y)});
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_FALSE(x.grad().defined()) << "a gradient was accumulated";
}

TEST(AutogradGraph, ATargetThatNothingReachesHasNoGradient) {
  const auto x = leaf(), y = leaf();
  const auto found = torch_compat::run_backward({torch_compat::gradient_edge(x.exp())},
                                                {at::ones({3})}, {torch_compat::gradient_edge(y)});
  EXPECT_FALSE(found.at(0).defined());
}

TEST(AutogradGraph, AskingForAHistoryMakesNone) {
  const auto x = leaf();
  EXPECT_FALSE(torch_compat::has_history(x));
  EXPECT_EQ(torch_compat::function_of(x), nullptr);
  const auto y = x.exp();
  EXPECT_TRUE(torch_compat::has_history(y));
  EXPECT_EQ(torch_compat::function_of(y), y.grad_fn().get());
}

TEST(AutogradGraph, ANonLeafGetsItsGradientAtTheEdge) {
  const auto x = at::randn({3}).requires_grad_(false);
  const auto edge = torch_compat::make_non_leaf(x);
  EXPECT_FALSE(x.is_leaf());
  const auto found =
      torch_compat::run_backward({torch_compat::gradient_edge(x * 3)}, {at::ones({3})}, {edge});
  EXPECT_TRUE(same_bits(found.at(0), at::full({3}, 3.0F)));
}

TEST(AutogradGraph, ViewsAndTheirBases) {
  const auto x = at::randn({4});
  const auto view = x.narrow(0, 1, 2);
  EXPECT_TRUE(torch_compat::base_or_self(view).is_same(x));
  EXPECT_TRUE(torch_compat::base_or_self(x).is_same(x));
  const auto span = torch_compat::span_of(view, 2, 1);
  EXPECT_EQ(span.data_ptr(), view.data_ptr());
  EXPECT_FALSE(span.is_view());
}

TEST(AutogradGraph, HowAViewWasMade) {
  const auto x = leaf().exp();
  EXPECT_FALSE(torch_compat::made_without_grad(x.narrow(0, 0, 1)));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(torch_compat::made_without_grad(x.narrow(0, 0, 1)));
}

TEST(AutogradGraph, AViewSeesTheHistoryOfItsBaseUntilTheBaseIsWritten) {
  const auto x = leaf().exp();
  const auto view = x.narrow(0, 0, 1);
  EXPECT_TRUE(torch_compat::has_history_of_base(view));
  x.mul_(2);
  EXPECT_FALSE(torch_compat::has_history_of_base(view));
  view.grad_fn();  // creates the history again
  EXPECT_TRUE(torch_compat::has_history_of_base(view));
}

TEST(AutogradGraph, OneOfSeveralViewsThatWasWritten) {
  const auto parts = leaf().exp().unbind(0);
  EXPECT_FALSE(torch_compat::is_written_one_of_several(parts[0]));
}

TEST(AutogradGraph, SequenceNumbersTellWhatWasMadeLater) {
  const auto x = leaf();
  const auto before = x.exp();
  const auto mark = torch_compat::next_sequence_number();
  const auto after = x.exp();
  EXPECT_TRUE(torch_compat::made_before(*before.grad_fn(), mark));
  EXPECT_FALSE(torch_compat::made_before(*after.grad_fn(), mark));
}

TEST(AutogradGraph, AReleasedNodeHasGivenUpWhatItSaved) {
  const auto x = leaf();
  const auto y = x.exp();
  torch_compat::release_saved(torch_compat::weak_function_of(y));
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

}  // namespace autograd_graph_test
}  // namespace antegrad::testing
