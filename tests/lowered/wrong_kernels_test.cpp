// Kernels that are wrong on purpose, which must show in their proofs.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/lowering.h"
#include "exact_options.h"
#include "support/bits.h"

namespace antegrad::testing {
namespace wrong_kernels_test {

using List = std::vector<at::Tensor>;

using lower::Kernel;
using lower::Op;

void fuse_a_product(Kernel& kernel) {
  for (auto& code : kernel.code) {
    if (code.op != Op::add) continue;
    const auto product = kernel.code[code.operands[0]];
    if (product.op != Op::mul) continue;
    code.op = Op::fma;
    code.operands = {product.operands[0], product.operands[1], code.operands[1]};
  }
}

void end_rows_like_their_bodies(Kernel& kernel) {
  for (auto& code : kernel.code) {
    if (code.op == Op::path) code.operands[1] = code.operands[0];
  }
}

void read_one_element_for_all(Kernel& kernel) {
  for (auto& buffer : kernel.buffers) {
    if (buffer.read) buffer.strides.back() = {};
  }
}

struct Fault {
  const char* name;
  void (*make)(Kernel&);
};

class WrongKernels : public ::testing::TestWithParam<Fault> {
 protected:
  ~WrongKernels() override { compiler::set_kernel_fault(nullptr); }
};

TEST_P(WrongKernels, AreFoundAndCostNoBit) {
  if (GetParam().make == end_rows_like_their_bodies && at::get_cpu_capability() == "DEFAULT") {
    GTEST_SKIP() << "rows end like their bodies without vectors";
  }
  compiler::set_kernel_fault(GetParam().make);
  const auto fn = [](const List& xs) { return (xs[0] * xs[1] + xs[2]).sigmoid(); };
  auto step = compile(fn, exact());
  const List inputs{at::randn({33, 65}), at::randn({33, 65}), at::randn({33, 65})};
  EXPECT_TRUE(same_bits({step(inputs)}, {fn(inputs)}));
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  const auto& program = report.programs.at(0);
  EXPECT_TRUE(program.generated_kernels.empty());
  ASSERT_FALSE(program.not_generated.empty());
  EXPECT_NE(program.not_generated.begin()->first.find("differ from libtorch's"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, WrongKernels,
                         ::testing::Values(Fault{"fused", fuse_a_product},
                                           Fault{"tail", end_rows_like_their_bodies},
                                           Fault{"index", read_one_element_for_all}),
                         [](const auto& info) { return std::string(info.param.name); });

class WrongCloseKernels : public ::testing::Test {
 protected:
  ~WrongCloseKernels() override { compiler::set_kernel_fault(nullptr); }
};

TEST_F(WrongCloseKernels, AreFound) {
  compiler::set_kernel_fault(read_one_element_for_all);
  const auto fn = [](const List& xs) { return (xs[0] * xs[1] + xs[2]).sigmoid() * xs[1]; };
  auto step = compile(fn, exact().with_lowering(Lowering::close));
  const List inputs{at::randn({33, 65}), at::randn({33, 65}), at::randn({33, 65})};
  EXPECT_TRUE(same_bits({step(inputs)}, {fn(inputs)}));
  const auto report = step.report();
  const auto& program = report.programs.at(0);
  EXPECT_TRUE(program.generated_kernels.empty());
  ASSERT_FALSE(program.not_generated.empty());
  EXPECT_NE(program.not_generated.begin()->first.find("less accurate"), std::string::npos);
}

}  // namespace wrong_kernels_test
}  // namespace antegrad::testing
