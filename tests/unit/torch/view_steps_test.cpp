// Views of a graph, recomputed on a tensor.

#include "runtime/view_steps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/bits.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace view_steps_test {

using runtime::ViewSteps;

const ops::AttrTables kNoTables;

TensorMeta strided(Shape sizes, Shape strides, int64_t offset = 0) {
  auto meta = dense(std::move(sizes));
  meta.strides = std::move(strides);
  meta.offset = offset;
  return meta;
}

at::Tensor apply(const ViewSteps& steps, const at::Tensor& tensor) {
  ViewSteps::Made made;
  return steps.apply(tensor, made);
}

TEST(ViewSteps, AChainOfViewsIsMadeAgain) {
  JointGraph b("views");
  const auto x = b.primal(dense({4, 6}));
  const auto row = b.view("aten::slice.Tensor", x, {IntExpr(0), IntExpr(1), IntExpr(3), IntExpr(1)},
                          strided({2, 6}, {6, 1}, 6));
  const auto turned = b.view("aten::t.default", row, {}, strided({6, 2}, {1, 6}, 6));
  b.result(turned);
  const auto tensor = at::arange(24, at::kFloat).view({4, 6});
  const auto view = apply(ViewSteps(b.finish(), kNoTables, x, turned), tensor);
  EXPECT_TRUE(view.is_alias_of(tensor));
  EXPECT_TRUE(same_bits(view, tensor.slice(0, 1, 3).t()));
  EXPECT_EQ(view.strides(), at::IntArrayRef({1, 6}));
}

TEST(ViewSteps, WithGradTheViewHasTheHistoryOfTheTensor) {
  JointGraph b("views");
  const auto x = b.primal(dense({2, 3}));
  const auto turned = b.view("aten::t.default", x, {}, strided({3, 2}, {1, 3}));
  const auto leaf = at::ones({2, 3}).requires_grad_();
  const auto view = apply(ViewSteps(b.finish(), kNoTables, x, turned), leaf);
  EXPECT_TRUE(view.is_view());
  view.sum().backward();
  EXPECT_TRUE(same_bits(leaf.grad(), at::ones({2, 3})));
}

TEST(ViewSteps, OfTheValueItselfATensorOfItsOwnIsMade) {
  JointGraph b("views");
  const auto x = b.primal(dense({2}));
  const auto tensor = at::ones({2});
  const auto view = apply(ViewSteps(b.finish(), kNoTables, x, x), tensor);
  EXPECT_FALSE(view.is_same(tensor));
  EXPECT_TRUE(view.is_alias_of(tensor));
}

TEST(ViewSteps, WhereNoViewsLeadThereSizesAndStridesDo) {
  JointGraph b("views");
  const auto x = b.primal(dense({4, 6}));
  const auto y =
      b.call("aten::clone.default", {x}, {attr::Input{}, attr::None{}}, strided({2, 3}, {6, 2}, 1));
  const auto tensor = at::arange(24, at::kFloat).view({4, 6});
  const auto view = apply(ViewSteps(b.finish(), kNoTables, x, y), tensor);
  EXPECT_TRUE(view.is_alias_of(tensor));
  EXPECT_TRUE(same_bits(view, tensor.as_strided({2, 3}, {6, 2}, 1)));
}

TEST(ViewSteps, ViewsOfOneCallAreTakenFromOneCall) {
  JointGraph b("views");
  const auto x = b.primal(dense({2, 3}));
  const auto rows = b.views("aten::split.Tensor", x, {IntExpr(1), IntExpr(0)},
                            {dense({1, 3}), strided({1, 3}, {3, 1}, 3)});
  const auto graph = b.finish();
  const auto tensor = at::arange(6, at::kFloat).view({2, 3});
  ViewSteps::Made made;
  const auto first = ViewSteps(graph, kNoTables, x, rows[0]).apply(tensor, made);
  const auto second = ViewSteps(graph, kNoTables, x, rows[1]).apply(tensor, made);
  EXPECT_EQ(made.size(), 1U);
  EXPECT_TRUE(same_bits(first, tensor.slice(0, 0, 1)));
  EXPECT_TRUE(same_bits(second, tensor.slice(0, 1, 2)));
}

}  // namespace view_steps_test
}  // namespace antegrad::testing
