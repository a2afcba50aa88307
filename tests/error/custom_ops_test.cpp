// Custom operators that cannot be captured exactly are refused by type, and the message says what to do.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/stand_in.h"
#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace {

// Expects E with each of `words` in its message, from a first call with `x`.
template <class E, class Fn>
void expect_refused(Fn fn, const at::Tensor& x, std::initializer_list<const char*> words) {
  const auto before = x.clone();
  auto step = antegrad::compile(std::move(fn));
  try {
    step(x);
    FAIL() << "expected an error";
  } catch (const E& error) {
    for (const char* word : words) EXPECT_THAT(error.what(), ::testing::HasSubstr(word));
  }
  EXPECT_TRUE(same_bits(x, before));
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

TEST(CustomOpErrors, AWriteToMemoryThatAnotherArgumentViews) {
  expect_refused<MutationError>(
      [](const at::Tensor& x) {
        auto y = x + 1;
        call_op<void(at::Tensor&, const at::Tensor&)>("axpy_", y, y.view({4}));
        return y;
      },
      at::randn({4}), {"axpy_", "custom_ops_test.cpp", "clone()"});
}

TEST(CustomOpErrors, AnOperatorThatResizesWhatItWrites) {
  expect_refused<MutationError>(
      [](const at::Tensor& x) {
        auto y = x + 1;
        return call_op<at::Tensor&(at::Tensor&)>("grow_", y) + 1;
      },
      at::randn({4}), {"grow_", "sizes"});
}

TEST(CustomOpErrors, AnOperatorThatReturnsAViewOfAnArgument) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&)>("first_row", x) + 1;
      },
      at::randn({4, 2}), {"first_row", "view", "custom_ops_test.cpp"});
}

TEST(CustomOpErrors, AnOperatorWhoseDerivativeNobodyDeclared) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        auto y = x + 1;
        return call_op<at::Tensor&(at::Tensor&, double)>("scale_", y, 2) * 1;
      },
      leaf({4}), {"scale_", "Autograd", "detach()", "custom_ops_test.cpp"});
}

}  // namespace
}  // namespace antegrad::testing
