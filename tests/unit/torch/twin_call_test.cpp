// Functional twins of operators that write.

#include "runtime/twin_call.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace twin_call_test {

const ops::OpEntry& twin_of(const char* name) { return *ops::entry_of(find_op(name)).twin; }

TEST(TwinCall, GivesWhatTheOperatorMakesAndWhatItWritesAndLeavesTheArguments) {
  const auto x = at::randn({3}), total = at::randn({3});
  const auto total_before = total.clone();
  torch::jit::Stack stack = {x, total};
  runtime::call_twin(twin_of("accumulate"), stack);
  ASSERT_EQ(stack.size(), 2U);
  const auto sum = total_before + x;
  EXPECT_TRUE(same_bits(stack[0].toTensor(), x * sum));
  EXPECT_TRUE(same_bits(stack[1].toTensor(), sum));
  EXPECT_TRUE(same_bits(total, total_before));
}

TEST(TwinCall, CopiesHaveTheStridesOfTheOriginals) {
  const auto x = at::randn({3, 2}).t();
  torch::jit::Stack stack = {x, 2.0};
  runtime::call_twin(twin_of("scale_"), stack);
  const auto written = stack.back().toTensor();
  EXPECT_EQ(written.strides(), x.strides());
  EXPECT_TRUE(same_bits(written, x * 2));
}

// axpy_(y, x) computes 2y + x in two steps; the second one reads x.
TEST(TwinCall, AnArgumentThatIsTheWrittenTensorSeesTheWrite) {
  const auto x = at::ones({2});
  torch::jit::Stack stack = {x, x};
  runtime::call_twin(twin_of("axpy_"), stack);
  EXPECT_TRUE(same_bits(stack.back().toTensor(), at::full({2}, 4.0F)));
  torch::jit::Stack apart = {x, at::ones({2})};
  runtime::call_twin(twin_of("axpy_"), apart);
  EXPECT_TRUE(same_bits(apart.back().toTensor(), at::full({2}, 3.0F)));
}

TEST(TwinCall, RefusesAnOperatorThatResizes) {
  torch::jit::Stack stack = {at::ones({2})};
  EXPECT_THROW(runtime::call_twin(twin_of("grow_"), stack), MutationError);
}

}  // namespace twin_call_test
}  // namespace antegrad::testing
