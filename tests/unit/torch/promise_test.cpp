// What a custom operator promised against what it returns.

#include "runtime/promise.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>

namespace antegrad::testing {
namespace promise_test {

runtime::Promise promise_of(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  runtime::Promise promise;
  promise.defined = true;
  promise.sizes = std::move(sizes);
  promise.strides = std::move(strides);
  return promise;
}

TEST(Promise, StridesMatterWhereThereAreElementsToStepOver) {
  const auto promise = promise_of({2, 3}, {3, 1});
  EXPECT_NO_THROW(runtime::require_kept(promise, at::zeros({2, 3}), "op"));
  EXPECT_THROW(runtime::require_kept(promise, at::zeros({3, 2}).t(), "op"), CaptureError);
  const auto one = promise_of({2, 1}, {1, 7});
  EXPECT_NO_THROW(runtime::require_kept(one, at::zeros({2, 1}), "op"));
  const auto none = promise_of({0, 3}, {1, 9});
  EXPECT_NO_THROW(runtime::require_kept(none, at::zeros({0, 3}), "op"));
}

TEST(Promise, DefinednessSizesAndDtypeMatter) {
  const auto promise = promise_of({2}, {1});
  EXPECT_THROW(runtime::require_kept(promise, at::zeros({3}), "op"), CaptureError);
  EXPECT_THROW(runtime::require_kept(promise, at::zeros({2}, at::kLong), "op"), CaptureError);
  EXPECT_THROW(runtime::require_kept(promise, at::Tensor(), "op"), CaptureError);
  EXPECT_THROW(runtime::require_kept(runtime::Promise(), at::zeros({2}), "op"), CaptureError);
  EXPECT_NO_THROW(runtime::require_kept(runtime::Promise(), at::Tensor(), "op"));
}

}  // namespace promise_test
}  // namespace antegrad::testing
