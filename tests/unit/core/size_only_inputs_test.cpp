#include "passes/size_only_inputs.h"

#include <gtest/gtest.h>

#include "pass_graphs.h"

namespace antegrad::testing {
namespace size_only_inputs_test {

TEST(SizeOnlyInputs, OperatorsThatReadOnlySizesBecomeFactories) {
  expect_pass(
      size_only_inputs,
      "  %5: f32[4, 2] = aten::zeros_like.default(%0, none, none, none, none, none)\n"
      "  %6: f32[4, 2] = aten::full_like.default(%0, scalar(3), none, none, none, none, none)\n"
      "  %7: f16[5] = aten::new_ones.default(%0, [5], f16, none, none, false)\n"
      "  %8: f32[4, 2]{1, 4} = aten::empty_like.default(%0, none, none, none, none, none)\n"
      "outputs\n  none result\n",
      "  %5: f32[4, 2] = aten::zeros.default([4, 2], f32, none, cpu, none)\n"
      "  %6: f32[4, 2] = aten::full.default([4, 2], scalar(3), f32, none, cpu, none)\n"
      "  %7: f16[5] = aten::ones.default([5], f16, none, cpu, none)\n"
      "  %8: f32[4, 2]{1, 4} = aten::empty_strided.default([4, 2], [1, 4], f32, none, cpu, none)\n"
      "outputs\n  none result\n");
}

TEST(SizeOnlyInputs, WhatTheFactoryCannotMakeStays) {
  expect_unchanged(
      size_only_inputs,
      "  %5: f32[4, 2]{1, 4} = aten::zeros_like.default(%0, none, none, none, none, none)\n"
      "  %6: f32[4, 2] = aten::zeros_like.default(%0, none, none, none, true, none)\n"
      "  %7: f32[4, 2], %8: token = aten::rand_like.default(%0, none, none, none, none, none; %2)\n"
      "outputs\n  none result\n  %8 generator 0\n");
}

}  // namespace size_only_inputs_test
}  // namespace antegrad::testing
