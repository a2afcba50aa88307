// Guards of module slots: the fast path detects the same changes as the full guard.

#include "guards/slot_guards.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace slot_guards_test {

using guards::SlotGuards;

std::string difference(const SlotGuards& guards) {
  std::string why;
  const bool holds = guards.hold(&why);
  EXPECT_EQ(holds, why.empty()) << why;
  EXPECT_EQ(guards.hold(nullptr), holds) << why;
  return why;
}

TEST(SlotGuards, NoSlotsHold) { EXPECT_EQ(difference(SlotGuards()), ""); }

TEST(SlotGuards, AnotherTensorInTheSlotIsNamed) {
  at::Tensor weight = at::zeros({2, 3}), bias = at::zeros({3});
  SlotGuards guards;
  guards.add(&weight, 0, "fc.weight");
  guards.add(&bias, 1, "fc.bias");
  EXPECT_EQ(difference(guards), "");
  bias = at::zeros({3});
  EXPECT_EQ(difference(guards), "fc.bias: the slot holds another tensor");
}

// Tensors of one and two dimensions take the fast path, the others the full guard.
TEST(SlotGuards, EveryNumberOfDimensionsIsWatched) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {4}, {4, 6}, {4, 6, 2}}) {
    at::Tensor slot = at::zeros(sizes);
    SlotGuards guards;
    guards.add(&slot, 0, "slot");
    ASSERT_EQ(difference(guards), "") << slot.dim();
    slot.requires_grad_();
    EXPECT_EQ(difference(guards), "slot: requires_grad true instead of false") << slot.dim();
    slot.requires_grad_(false);
    EXPECT_EQ(difference(guards), "") << slot.dim();
    slot.set_data(at::zeros({5, 7}));
    EXPECT_NE(difference(guards).find("slot: sizes [5, 7] instead of"), std::string::npos)
        << slot.dim();
    slot.set_data(at::zeros(sizes, at::kDouble));
    EXPECT_EQ(difference(guards), "slot: dtype Double instead of Float") << slot.dim();
  }
}

TEST(SlotGuards, StridesAndOffsetOfAMatrixAreWatched) {
  at::Tensor slot = at::zeros({3, 3});
  SlotGuards guards;
  guards.add(&slot, 0, "slot");
  slot.set_data(at::zeros({3, 3}).t());
  EXPECT_EQ(difference(guards), "slot: strides [1, 3] instead of [3, 1]");
  slot.set_data(at::zeros({4, 3}).slice(0, 1));
  EXPECT_EQ(difference(guards), "slot: storage_offset 3 instead of 0");
}

TEST(SlotGuards, TensorsAreCollectedByPrimal) {
  at::Tensor first = at::zeros({1}), second = at::ones({1});
  SlotGuards guards;
  guards.add(&first, 2, "first");
  guards.add(&second, 0, "second");
  std::vector<at::Tensor> primals(3);
  guards.collect(primals);
  EXPECT_TRUE(primals[2].is_same(first));
  EXPECT_TRUE(primals[0].is_same(second));
  EXPECT_FALSE(primals[1].defined());
}

}  // namespace slot_guards_test
}  // namespace antegrad::testing
