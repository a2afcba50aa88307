// The part of the autograd graph that a block of eager code adds.

#include "torch_compat/inner_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <thread>

#include "support/bits.h"
#include "torch_compat/autograd_graph.h"

namespace antegrad::testing {
namespace inner_graph_test {

using torch_compat::GraphMark;

TEST(InnerGraph, AMarkKnowsTheNodesOfItsOwnThread) {
  const auto x = at::randn({3}).requires_grad_();
  const auto before = x.exp();
  const auto mark = GraphMark::now();
  const auto after = x.exp();
  at::Tensor elsewhere;
  std::thread([&] { elsewhere = x.exp(); }).join();
  EXPECT_FALSE(mark.is_before(*before.grad_fn()));
  EXPECT_TRUE(mark.is_before(*after.grad_fn()));
  EXPECT_FALSE(mark.is_before(*elsewhere.grad_fn()));
  EXPECT_FALSE(mark.is_before(*torch_compat::gradient_edge(x).function)) << "a leaf's accumulator";
}

// The block computes w * exp(h) of h = x * x, which was computed before.
class Stretch : public ::testing::Test {
 protected:
  const at::Tensor x = at::randn({3}).requires_grad_(), w = at::randn({3}).requires_grad_();
  const at::Tensor h = x * x;
  const GraphMark mark = GraphMark::now();
  const at::Tensor middle = h.exp(), y = w * middle;
  const std::vector<torch::autograd::Edge> roots = {torch_compat::gradient_edge(y)};
};

TEST_F(Stretch, EndsWhereItReadsWhatWasThereBefore) {
  const auto leaving = torch_compat::leaving_edges(roots, mark, {});
  ASSERT_EQ(leaving.size(), 2U);
  int leaves = 0;
  for (const auto& edge : leaving) {
    EXPECT_TRUE(mark.is_before(*edge.node));
    const auto& next = edge.node->next_edge(edge.output);
    leaves += torch_compat::leads_to_leaf(next);
    EXPECT_FALSE(torch_compat::leads_to_unseen_leaf(next));
  }
  EXPECT_EQ(leaves, 1);
}

TEST_F(Stretch, RunsByItselfAndShowsNothingOutside) {
  const auto tangent = at::randn({3});
  const auto expected = torch::autograd::grad({y}, {w, h}, {tangent}, /*retain_graph=*/true);
  auto leaving = torch_compat::leaving_edges(roots, mark, {});
  std::vector<size_t> slots;
  for (const auto& edge : leaving) {
    const bool to_leaf = torch_compat::leads_to_leaf(edge.node->next_edge(edge.output));
    slots.push_back(to_leaf ? 0 : 1);
  }
  const auto found = torch_compat::run({roots, {tangent}, leaving, slots, {true, true}, true});
  EXPECT_TRUE(same_bits({found.at(0).detach(), found.at(1).detach()}, expected));
  EXPECT_FALSE(w.grad().defined());
}

TEST_F(Stretch, ARootThatAnotherWasComputedFromIsInner) {
  const auto inner = torch_compat::are_inner(
      {torch_compat::gradient_edge(middle), torch_compat::gradient_edge(y)}, mark);
  EXPECT_EQ(inner, (std::vector<bool>{true, false}));
}

TEST(InnerGraph, ATensorWithoutHistorySharesMemoryAndVersions) {
  const auto x = at::randn({3}).requires_grad_().exp();
  const auto plain = torch_compat::without_history(x);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_EQ(plain.data_ptr(), x.data_ptr());
  const auto version = x._version();
  plain.add_(1);
  EXPECT_EQ(x._version(), version + 1);
}

}  // namespace inner_graph_test
}  // namespace antegrad::testing
