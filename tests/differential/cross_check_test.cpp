// Options::cross_check_shapes: detects wrong Meta kernels, can replace them, and changes nothing
// else.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <antegrad/antegrad.h>
#include <antegrad/inside.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <sstream>

#include "capture/stand_in.h"
#include "support/bits.h"
#include "support/custom_ops.h"

namespace antegrad::testing {
namespace cross_check_test {

using ::testing::HasSubstr;

// A custom operator whose Meta kernel wrongly returns row-major strides.
at::Tensor columns(const at::Tensor& x) { return (x * 2).t().contiguous().t(); }
at::Tensor columns_meta(const at::Tensor& x) { return at::empty_like(x); }
// An operator whose kernel takes positive numbers only.
at::Tensor root(const at::Tensor& x) {
  TORCH_CHECK(at::all(x > 0).item<bool>(), "positive numbers, please");
  return x.sqrt();
}

TORCH_LIBRARY(antegrad_cross, m) {
  m.def("columns(Tensor x) -> Tensor");
  m.def("root(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(antegrad_cross, CPU, m) {
  m.impl("columns", &columns);
  m.impl("root", &root);
}
TORCH_LIBRARY_IMPL(antegrad_cross, Meta, m) {
  m.impl("columns", &columns_meta);
  m.impl("root", &columns_meta);
}

at::Tensor call(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

struct Columns : torch::autograd::Function<Columns> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return call("antegrad_cross::columns", x);
  }
  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext*,
                                          const std::vector<at::Tensor>& grads) {
    return {call("antegrad_cross::columns", grads[0])};
  }
};

// Uses the operator in the backward only.
struct ColumnsBackward : torch::autograd::Function<ColumnsBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext*,
                                          const std::vector<at::Tensor>& grads) {
    return {call("antegrad_cross::columns", grads[0])};
  }
};

Options checking(CrossCheckShapes mode) { return Options().with_cross_check_shapes(mode); }

at::Tensor leaf() { return at::randn({3, 4}).set_requires_grad(true); }

at::Tensor step_of(const at::Tensor& x) { return Columns::apply(x).view_as(x) * x; }

TEST(CrossCheck, OffTheProgramFindsTheWrongMetaKernelWhenItRuns) {
  const auto x = leaf();
  auto step = antegrad::compile(step_of);
  EXPECT_THROW(step(x), CaptureError);
  EXPECT_TRUE(step.report().programs.at(0).shape_checks.empty());
}

TEST(CrossCheck, AWrongMetaKernelIsATypedErrorOfTheCapture) {
  const auto x = leaf();
  const auto before = x.detach().clone();
  auto step = antegrad::compile(step_of, checking(CrossCheckShapes::error));
  try {
    step(x);
    FAIL() << "expected an error";
  } catch (const ShapeMismatchError& error) {
    EXPECT_EQ(error.op(), "antegrad_cross::columns.default");
    for (const char* word :
         {"Meta kernel", "the kernel returns strides [1, 3] instead of [4, 1]",
          "for (Float[3, 4]/[4, 1] on cpu)", "cross_check_test.cpp", "use_kernel"}) {
      EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
  EXPECT_TRUE(same_bits(x, before));
  EXPECT_TRUE(step.report().programs.empty());
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

TEST(CrossCheck, UseKernelGivesWhatEagerGives) {
  const auto x = leaf(), y = x.detach().clone().set_requires_grad(true);
  auto step = antegrad::compile(step_of, checking(CrossCheckShapes::use_kernel));
  const auto result = step(x), expected = step_of(y);
  EXPECT_TRUE(same_bits(result, expected));
  EXPECT_EQ(result.strides(), expected.strides());
  result.sum().backward();
  expected.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), y.grad()));

  const auto report = step.report();
  const auto& check = report.programs.at(0).shape_checks.at("antegrad_cross::columns.default");
  EXPECT_EQ(check.meta_kernels, 2);  // forward and backward
  EXPECT_EQ(check.checked, 2);
  EXPECT_EQ(check.mismatches, 1);  // the gradient is column by column already
  EXPECT_THAT(check.mismatch, HasSubstr("strides [1, 3]"));
  std::ostringstream text;
  text << report;
  EXPECT_THAT(text.str(), HasSubstr("antegrad_cross::columns.default: output 0"));
}

TEST(CrossCheck, AMismatchInTheBackwardIsAnErrorOfTheBackward) {
  const auto x = leaf();
  auto step = antegrad::compile([](const at::Tensor& t) { return ColumnsBackward::apply(t); },
                                checking(CrossCheckShapes::error));
  const auto result = step(x);
  EXPECT_THROW(result.sum().backward(), ShapeMismatchError);
  EXPECT_FALSE(x.grad().defined());
}

TEST(CrossCheck, OnRefusalAppliesToIt) {
  const auto x = leaf();
  auto step = antegrad::compile(
      step_of, checking(CrossCheckShapes::error).with_on_refusal(OnRefusal::eager));
  EXPECT_TRUE(same_bits(step(x), step_of(x)));
  EXPECT_EQ(step.report().eager_calls, 1);
}

TEST(CrossCheck, WhatAgreesIsCountedAndChangesNothing) {
  const auto function = [](const at::Tensor& x) {
    const auto y = call_op<at::Tensor(const at::Tensor&)>("cube_meta", x);
    return call_op<at::Tensor(const at::Tensor&)>("cube_cpu", y * 2);
  };
  const auto x = at::randn({3});
  auto step = antegrad::compile(function, checking(CrossCheckShapes::error));
  EXPECT_TRUE(same_bits(step(x), function(x)));
  const auto checks = step.report().programs.at(0).shape_checks;
  EXPECT_EQ(checks.size(), 3);
  EXPECT_EQ(checks.at("agtest::cube_meta.default").checked, 1);
  EXPECT_EQ(checks.at("aten::mul.Scalar").shape_functions, 1);
  EXPECT_EQ(checks.at("aten::mul.Scalar").checked, 1);
  // The real kernel describes the result anyway.
  EXPECT_EQ(checks.at("agtest::cube_cpu.default").real_kernels, 1);
  EXPECT_EQ(checks.at("agtest::cube_cpu.default").checked, 0);
  for (const auto& [op, check] : checks) EXPECT_EQ(check.mismatches, 0) << op;
}

TEST(CrossCheck, IntegersAreDividedByOnes) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& y) { return at::floor_divide(x, y); },
      checking(CrossCheckShapes::error));
  step(at::arange(4), at::arange(1, 5));
  const auto check = step.report().programs.at(0).shape_checks.at("aten::floor_divide.default");
  EXPECT_EQ(check.checked, 1);
  EXPECT_EQ(check.skipped, 0);
}

TEST(CrossCheck, KernelsThatRefuseZerosAreTriedOnDataOfTheirDomain) {
  using Function = at::Tensor (*)(const at::Tensor&);
  const std::pair<const char*, Function> cases[] = {
      {"aten::multinomial.default",
       [](const at::Tensor& x) { return at::multinomial(x.softmax(1), 2, true); }},
      {"aten::cholesky.default",
       [](const at::Tensor& x) { return at::cholesky(x.mm(x.t()) + at::eye(4)); }},
      {"aten::lu_unpack.default",
       [](const at::Tensor& x) {
         const auto [lu, pivots] = at::linalg_lu_factor(x);
         return std::get<2>(at::lu_unpack(lu, pivots));
       }},
      {"aten::linalg_lu_solve.default",
       [](const at::Tensor& x) {
         const auto [lu, pivots] = at::linalg_lu_factor(x);
         return at::linalg_lu_solve(lu, pivots, x);
       }},
  };
  const auto x = at::randn({4, 4});
  for (const auto& [op, function] : cases) {
    SCOPED_TRACE(op);
    auto step =
        antegrad::compile([function = function](const at::Tensor& t) { return function(t); },
                          checking(CrossCheckShapes::error));
    at::manual_seed(3);
    const auto expected = function(x);
    at::manual_seed(3);
    EXPECT_TRUE(same_bits(step(x), expected));
    const auto check = step.report().programs.at(0).shape_checks.at(op);
    EXPECT_EQ(check.checked + check.real_kernels, 1);  // libtorch 2.11 cannot describe a cholesky
    EXPECT_EQ(check.skipped, 0);
  }
}

// Calls that differ in the place of a None are different calls.
TEST(CrossCheck, IndicesOfSeveralDimensionsAreToldApart) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& i) {
        return std::vector<at::Tensor>{at::index(x, {i}), at::index(x, {at::Tensor(), i})};
      },
      checking(CrossCheckShapes::error));
  EXPECT_NO_THROW(step(at::randn({4, 4}), at::tensor({1, 2, 3})));
}

// Found by this check: libtorch's Meta kernels report other strides or sizes than its kernels
// return.
TEST(CrossCheck, OperatorsWithAWrongMetaKernelOfLibtorchAskTheirKernel) {
  using Function = at::Tensor (*)(const at::Tensor&);
  const std::pair<const char*, Function> cases[] = {
      {"aten::_linalg_svd.default",
       [](const at::Tensor& x) { return std::get<2>(at::_linalg_svd(x[0])); }},
      {"aten::_fft_r2c.default",
       [](const at::Tensor& x) {
         return at::fft_rfftn(x, {}, at::IntArrayRef({0, 1, 2}));
       }},
      {"aten::_fft_c2r.default",
       [](const at::Tensor& x) {
         return at::fft_irfft(at::complex(x, x).permute({2, 1, 0}), {}, 2);
       }},
      {"aten::linalg_eig.default",
       [](const at::Tensor& x) { return std::get<1>(at::linalg_eig(x)); }},
      {"aten::nonzero_static.default",
       [](const at::Tensor& x) { return at::nonzero_static(x.sum(), 0); }},
  };
  const auto x = at::randn({5, 6, 6});
  for (const auto& [op, function] : cases) {
    auto step =
        antegrad::compile([function = function](const at::Tensor& t) { return function(t); },
                          checking(CrossCheckShapes::error));
    const auto found = step(x), expected = function(x);
    EXPECT_EQ(found.strides(), expected.strides()) << op;
    EXPECT_EQ(step.report().programs.at(0).shape_checks.at(op).real_kernels, 1) << op;
  }
}

TEST(CrossCheck, AKernelThatRefusesInventedDataIsSkipped) {
  auto step =
      antegrad::compile([](const at::Tensor& x) { return call("antegrad_cross::root", x) + 1; },
                        checking(CrossCheckShapes::error));
  const auto x = at::ones({3});
  EXPECT_TRUE(same_bits(step(x), x + 1));
  const auto check = step.report().programs.at(0).shape_checks.at("antegrad_cross::root.default");
  EXPECT_EQ(check.checked, 0);
  EXPECT_EQ(check.skipped, 1);
}

TEST(CrossCheck, AnOperatorWithEffectsRunsAtCallsOnly) {
  declare_effects("agtest::tap");
  Journal::instance().take();
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        return call_op<at::Tensor(const at::Tensor&, std::string)>("tap", x, "once") + 1;
      },
      checking(CrossCheckShapes::error));
  step(at::ones({2}));
  EXPECT_EQ(Journal::instance().take().size(), 1);
  EXPECT_EQ(step.report().programs.at(0).shape_checks.at("agtest::tap.default").skipped, 1);
}

TEST(CrossCheck, DrawsFromNoGeneratorOfTheCallers) {
  auto own = at::detail::createCPUGenerator(7);
  const auto function = [&](const at::Tensor& x) {
    return at::dropout(x, 0.5, true) + at::rand({16}, own) + at::bernoulli(x.sigmoid());
  };
  const auto x = at::randn({16});
  at::manual_seed(3);
  const auto expected = function(x);
  at::manual_seed(3);
  own.set_current_seed(7);
  auto step = antegrad::compile(function, checking(CrossCheckShapes::error));
  EXPECT_TRUE(same_bits(step(x), expected));
}

}  // namespace cross_check_test
}  // namespace antegrad::testing
