// Code that bypasses the dispatcher, reads data or lets stand-ins escape: a typed error that names
// the place and the remedy.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <sstream>

#include "capture/stand_in.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace inside_test {

using List = std::vector<at::Tensor>;
using Words = std::vector<const char*>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

template <class E, class Fn>
void expect_refused(Fn fn, const at::Tensor& x, const Words& words) {
  const auto before = x.detach().clone();
  auto step = antegrad::compile(std::move(fn));
  try {
    step(x);
    FAIL() << "expected an error";
  } catch (const E& error) {
    for (const char* word : words) EXPECT_THAT(error.what(), ::testing::HasSubstr(word));
  }
  EXPECT_TRUE(same_bits(x.detach(), before));
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

// ---- data ---------------------------------------------------------------------------------------

const Words kDataWords = {"ag::constant", "ag::opaque", "inside_test.cpp"};

TEST(Data, ATensorFromHostValues) {
  expect_refused<DataDependentError>(
      [](const at::Tensor& x) {
        return x * torch::tensor(std::vector<float>{1, 2, 3});
      },
      leaf({3}), kDataWords);
}

TEST(Data, APointerToIt) {
  expect_refused<DataDependentError>([](const at::Tensor& x) { return x * x.data_ptr<float>()[0]; },
                                     leaf({3}), kDataWords);
  expect_refused<DataDependentError>(
      [](const at::Tensor& x) { return x * (x + 1).const_data_ptr<float>()[0]; }, leaf({3}),
      kDataWords);
  expect_refused<DataDependentError>(
      [](const at::Tensor& x) {
        return x * static_cast<const float*>((x + 1).view({3}).storage().data())[0];
      },
      leaf({3}), kDataWords);
}

TEST(Data, AnAccessor) {
  expect_refused<DataDependentError>(
      [](const at::Tensor& x) { return x * x.accessor<float, 1>()[0]; }, leaf({3}), kDataWords);
}

TEST(Data, SavingIt) {
  for (const bool intermediate : {false, true}) {
    expect_refused<DataDependentError>(
        [&](const at::Tensor& x) {
          std::ostringstream out;
          torch::save(intermediate ? x * 2 : x, out);
          return x * static_cast<double>(out.str().size());
        },
        leaf({3}), kDataWords);
  }
}

// ---- constant -----------------------------------------------------------------------------------

TEST(Constant, RefusesWhatIsNoConstant) {
  const auto held = at::ones({3});
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        return x * constant([] { return at::ones({3}).set_requires_grad(true); });
      },
      leaf({3}), {"ag::constant", "requires grad", "inside_test.cpp"});
  expect_refused<CaptureError>(
      [&](const at::Tensor& x) { return x * held * constant([&] { return held.view({3}); }); },
      leaf({3}), {"ag::constant", "shares memory"});
  expect_refused<CaptureError>([](const at::Tensor& x) { return x * constant([&] { return x; }); },
                               leaf({3}), {"ag::constant", "computed"});
  expect_refused<EscapeError>(
      [](const at::Tensor& x) { return x * constant([&] { return x + 1; }); }, leaf({3}),
      {"outside its capture"});
  expect_refused<CaptureError>(
      [](const at::Tensor& x) { return x * constant([] { return at::ones({1}).expand({3}); }); },
      leaf({3}), {"ag::constant", "clone()"});
}

// ---- opaque -------------------------------------------------------------------------------------

Opaque code_of(Opaque::Fn compute, Opaque::Fn shapes = {}, Opaque::Fn backward = {}) {
  static int count = 0;
  return {"code" + std::to_string(++count), std::move(compute), std::move(shapes),
          std::move(backward)};
}

TEST(OpaqueErrors, WhatItsCodeThrowsNamesItEagerlyAndCompiled) {
  const auto code = code_of([](const List&) -> List { throw std::runtime_error("no licence"); });
  const auto fn = [&](const at::Tensor& x) { return opaque(code, {x})[0]; };
  EXPECT_THROW(fn(at::ones({3})), Error);
  expect_refused<Error>(fn, at::ones({3}), {code.name.c_str(), "no licence"});
}

TEST(OpaqueErrors, ABrokenPromiseOfShapes) {
  const auto code = code_of([](const List& in) -> List { return {in[0].sum(0)}; });
  expect_refused<CaptureError>([&](const at::Tensor& x) { return opaque(code, {x})[0]; },
                               at::ones({2, 3}), {"antegrad::opaque", "[2, 3]", "[3]"});
}

TEST(OpaqueErrors, AnOutputThatIsAnInput) {
  const auto code = code_of([](const List& in) -> List { return {in[0].view({3})}; });
  expect_refused<InputError>([&](const at::Tensor& x) { return opaque(code, {x})[0]; },
                             at::ones({3}), {code.name.c_str(), "shares memory"});
}

TEST(OpaqueErrors, WithoutNameOrCode) {
  EXPECT_THROW(opaque(Opaque(), {at::ones({3})}), InputError);
}

TEST(OpaqueErrors, GradientsThatDoNotFit) {
  const auto code = code_of([](const List& in) -> List { return {in[0] * 2}; }, {},
                            [](const List&) -> List { return {at::ones({7})}; });
  auto step = antegrad::compile([&](const at::Tensor& x) { return opaque(code, {x})[0].sum(); });
  const auto x = leaf({3});
  EXPECT_THROW(step(x).backward(), InputError);
}

// ---- hooks --------------------------------------------------------------------------------------

TEST(HookErrors, OnAnArgument) {
  expect_refused<CaptureError>(
      [&](const at::Tensor& x) {
        x.register_hook([](const at::Tensor& grad) { return grad * 2; });
        return (x * 2).sum();
      },
      leaf({3}), {"register_hook"});
}

// The first capture cannot know when the hook was added. The audit of the second call sees it.
TEST(HookErrors, OnATensorThatTheCallableHoldsIsFoundByTheAudit) {
  const auto weight = leaf({3});
  auto step = antegrad::compile([&](const at::Tensor& x) {
    weight.register_hook([](const at::Tensor& grad) { return grad * 2; });
    return (x * weight).sum();
  });
  const auto x = leaf({3});
  step(x);
  EXPECT_THROW(step(x), HostStateError);
}

TEST(HookErrors, RetainGradOfAResult) {
  expect_refused<CaptureError>(
      [](const at::Tensor& x) {
        auto y = x * 2;
        y.retain_grad();
        return y;
      },
      leaf({3}), {"retain_grad"});
}

// ---- escapes ------------------------------------------------------------------------------------

TEST(Escapes, AreNamedByOperatorAndLine) {
  at::Tensor kept;
  auto step = antegrad::compile([&](const at::Tensor& x) {
    auto y = x * 2;
    kept = y.tanh().detach();
    const int line_of_tanh = __LINE__ - 1;
    static_cast<void>(line_of_tanh);
    return y.sum();
  });
  const int line = __LINE__ - 5;
  try {
    step(leaf({3}));
    FAIL() << "expected an error";
  } catch (const EscapeError& error) {
    EXPECT_EQ(error.op(), "aten::tanh");
    const auto place = "inside_test.cpp:" + std::to_string(line);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(place));
  }
  kept = at::Tensor();
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(Escapes, AKeptArgumentIsNotBlamedOnAnOperator) {
  at::Tensor kept;
  auto step = antegrad::compile([&](const at::Tensor& x) {
    kept = x;
    return x.sum();
  });
  EXPECT_THROW(step(leaf({3})), EscapeError);
  kept = at::Tensor();
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

}  // namespace inside_test
}  // namespace antegrad::testing
