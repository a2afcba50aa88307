// The expected metadata of a custom operator's results, compared with its real results.

#include "runtime/expected_output.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace expected_output_test {

using torch_compat::TensorMetadata;

void expect_words(const TensorMetadata& expected, const at::Tensor& result, const char* words) {
  EXPECT_FALSE(runtime::is_as_expected(expected, result));
  try {
    runtime::require_as_expected(expected, result, "mine::op");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.op(), "mine::op");
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

void expect_accepted(const TensorMetadata& expected, const at::Tensor& result) {
  EXPECT_TRUE(runtime::is_as_expected(expected, result));
  EXPECT_NO_THROW(runtime::require_as_expected(expected, result, "mine::op"));
}

TEST(ExpectedOutput, StridesMatterWhereThereAreElementsToStepOver) {
  const TensorMetadata expected{.sizes = {2, 3}, .strides = {3, 1}};
  expect_accepted(expected, at::zeros({2, 3}));
  expect_accepted(expected, at::zeros({4, 3}).slice(0, 2));
  expect_words(expected, at::zeros({3, 2}).t(), "strides [1, 2] instead of [3, 1] at the call");
  expect_accepted({.sizes = {2, 1}, .strides = {1, 7}}, at::zeros({2, 1}));
  expect_accepted({.sizes = {0, 3}, .strides = {1, 9}}, at::zeros({0, 3}));
}

TEST(ExpectedOutput, DefinednessSizesAndDtypeMatter) {
  const TensorMetadata expected{.sizes = {2}, .strides = {1}}, none{.defined = false};
  expect_words(expected, at::zeros({3}), "sizes [3] instead of [2] at the call");
  expect_words(expected, at::zeros({2}, at::kLong), "dtype Long instead of Float");
  expect_words(expected, at::Tensor(), "an undefined tensor instead of Float[2]/[1] on cpu");
  expect_words(none, at::zeros({2}), "Float[2]/[1] on cpu instead of an undefined tensor");
  expect_accepted(none, at::Tensor());
}

}  // namespace expected_output_test
}  // namespace antegrad::testing
