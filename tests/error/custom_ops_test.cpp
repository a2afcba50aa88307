// Custom operators that cannot be captured exactly: a typed error whose message says what to do.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <antegrad/inside.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/stand_in.h"
#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace custom_ops_test {

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

TEST(CustomOpErrors, AnOperatorThatReturnsTwoLists) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        using Tensors = std::vector<at::Tensor>;
        return std::get<0>(
            call_op<std::tuple<Tensors, Tensors>(const at::Tensor&)>("two_lists", x))[0];
      },
      at::randn({4}), {"two_lists", "one list"});
}

TEST(CustomOpErrors, AnOperatorThatBreaksThePromiseOfItsMetaKernel) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) { return call_op<at::Tensor(const at::Tensor&)>("lies", x) + 1; },
      at::randn({2, 4}), {"lies", "Meta kernel", "[2, 4]", "[4]"});
}

TEST(CustomOpErrors, AnOperatorWhoseSizesSecretlyDependOnData) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&)>("positives", x).sum();
      },
      at::ones({4}), {"positives", "dynamic_output_shape"});
}

TEST(CustomOpErrors, AnOperatorWithEffectsAndNoMetaKernelNeverRunsForItsShapes) {
  declare_effects("agtest::tap_without_meta");
  Journal::instance().take();
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&, std::string)>("tap_without_meta", x, "no");
      },
      at::randn({4}), {"tap_without_meta", "Meta", "effects", "custom_ops_test.cpp"});
  EXPECT_TRUE(Journal::instance().take().empty());
}

TEST(CustomOpErrors, ACompositeOperatorWithEffectsThatReturnsTensors) {
  declare_effects("agtest::tap_composite");
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&, std::string)>("tap_composite", x, "no");
      },
      at::randn({4}), {"tap_composite", "CompositeImplicitAutograd"});
}

TEST(CustomOpErrors, EffectsDeclaredTooLateOrWithAnOverload) {
  antegrad::compile([](const at::Tensor& x) {
    return call_op<at::Tensor(const at::Tensor&)>("cube_cpu", x);
  })(at::randn({3}));
  EXPECT_THROW(declare_effects("agtest::cube_cpu"), InputError);
  EXPECT_THROW(declare_effects("agtest::tap.default"), InputError);
  EXPECT_THROW(declare_effects("tap"), InputError);
}

}  // namespace custom_ops_test
}  // namespace antegrad::testing
