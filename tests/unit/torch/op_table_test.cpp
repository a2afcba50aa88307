// Traits of a few operators of each kind.

#include "ops/op_table.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace op_table_test {

using ops::ArgKind;
using ops::entry_of;

const ops::OpEntry& of(const char* name) { return entry_of(Op::intern(name)); }

TEST(OpTable, KindsOfArgumentsFollowTheSchema) {
  EXPECT_EQ(of("aten::add.Tensor").args,
            (std::vector{ArgKind::tensor, ArgKind::tensor, ArgKind::scalar}));
  EXPECT_EQ(of("aten::cat.default").args, (std::vector{ArgKind::tensors, ArgKind::integer}));
  EXPECT_EQ(of("aten::sum.dim_IntList").args,
            (std::vector{ArgKind::tensor, ArgKind::integers, ArgKind::boolean, ArgKind::dtype}));
  EXPECT_EQ(of("aten::index.Tensor").args,
            (std::vector{ArgKind::tensor, ArgKind::optional_tensors}));
  EXPECT_EQ(of("aten::sum.dim_IntList").optional, (std::vector{false, true, false, true}));
}

TEST(OpTable, AnOperatorHasOneEntryHoweverItIsAskedFor) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mm", "");
  EXPECT_EQ(&entry_of(handle), &of("aten::mm.default"));
}

TEST(OpTable, AnUnknownNameIsATypedError) {
  EXPECT_THROW(of("aten::no_such_operator.default"), GraphError);
}

TEST(OpTable, WhatDrawsNamesItsGenerator) {
  EXPECT_TRUE(of("aten::bernoulli.p").random);
  EXPECT_EQ(of("aten::bernoulli.p").generator_arg, 2);
  EXPECT_TRUE(of("aten::native_dropout.default").random);
  EXPECT_EQ(of("aten::native_dropout.default").generator_arg, -1);
  EXPECT_FALSE(of("aten::mm.default").random);
}

TEST(OpTable, CompositesAndFactoriesAreKnown) {
  EXPECT_TRUE(of("aten::linear.default").composite);
  EXPECT_FALSE(of("aten::mm.default").composite);
  EXPECT_GE(of("aten::ones.default").device_arg, 0);
  EXPECT_EQ(of("aten::mm.default").device_arg, -1);
  EXPECT_FALSE(of("aten::mm.default").custom);
}

TEST(OpTable, WhatGivesDataToTheHostIsToldFromWhatHasSizesOfData) {
  EXPECT_EQ(of("aten::mm.default").policy, ops::Policy::record);
  EXPECT_EQ(of("aten::_local_scalar_dense.default").policy, ops::Policy::data_dependent);
  EXPECT_EQ(of("aten::nonzero.default").policy, ops::Policy::dynamic_outputs);
}

// The schema of batch norm does not declare the statistics that it writes.
TEST(OpTable, AHiddenMutationNamesWhatItWritesInTrainingOnly) {
  const auto& norm = of("aten::native_batch_norm.default");
  EXPECT_EQ(norm.policy, ops::Policy::hidden_mutation);
  ASSERT_NE(norm.twin, nullptr);
  EXPECT_TRUE(norm.twin->is_twin);
  const auto statistic = at::zeros({3});
  std::vector<c10::IValue> args = {at::zeros({2, 3}), at::Tensor(), at::Tensor(), statistic,
                                   statistic,         true,         0.1,          1e-5};
  EXPECT_EQ(ops::written_arguments(norm, args), (std::vector<size_t>{3, 4}));
  args[4] = c10::IValue();
  EXPECT_EQ(ops::written_arguments(norm, args), (std::vector<size_t>{3}));
  args[5] = false;
  EXPECT_TRUE(ops::written_arguments(norm, args).empty());
}

}  // namespace op_table_test
}  // namespace antegrad::testing
