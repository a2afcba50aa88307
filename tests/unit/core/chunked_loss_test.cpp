#include "passes/chunked_loss.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "graph/verify.h"
#include "graphs.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace chunked_loss_test {

const std::string kInputs = R"(inputs
  %0: bf16[6, 4] primal argument 0 grad
  %1: bf16[4, 9] primal argument 1
  %2: i64[6] primal argument 2
  %3: f32[] tangent 0
nodes
  %4: bf16[6, 9] = aten::mm.default(%0, %1)
  %5: bf16[2, 3, 9] &4 = aten::view.default(%4, [2, 3, 9])
)";
const std::string kForward = kInputs + R"(
  %6: f32[2, 3, 9] = aten::_to_copy.default(%5, f32, none, none, none, false, none)
  %7: f32[6, 9] &6 = aten::view.default(%6, [-1, 9])
  %8: f32[6, 9] = aten::_log_softmax.default(%7, 1, false)
  %9: f32[], %10: f32[] = aten::nll_loss_forward.default(%8, %2, none, 1, -100)
)";
const std::string kBackward = R"(backward
  %11: f32[6, 9] = aten::nll_loss_backward.default(%3, %8, %2, none, 1, -100, %10)
  %12: f32[6, 9] = aten::_log_softmax_backward_data.default(%11, %8, 1, f32)
  %13: f32[2, 3, 9] &12 = aten::view.default(%12, [2, 3, 9])
  %14: bf16[2, 3, 9] = aten::_to_copy.default(%13, bf16, none, none, none, false, none)
  %15: bf16[6, 9] &14 = aten::view.default(%14, [6, 9])
  %16: bf16[9, 6]{1, 9} &14 = aten::t.default(%15)
)";
const std::string kOutputs = "outputs\n  %9 result grad\n  %16 gradient 0\n";

Graph chunked(const std::string& text) {
  Graph found = chunked_loss(graph_of(text));
  EXPECT_NO_THROW(verify(found)) << text;
  return dce(std::move(found));
}

void expect_unchanged(const std::string& text) { expect_same(chunked(text), dce(graph_of(text))); }

TEST(ChunkedLoss, TheGradientHasTheFormOfTheMemoryOfTheLogits) {
  expect_same(chunked(kForward + kBackward + kOutputs), dce(graph_of(kInputs + R"(
  %9: f32[], %10: f32[] = antegrad::cross_entropy.default(%4, %2, 1, -100)
backward
  %15: bf16[6, 9] = antegrad::cross_entropy_backward.default(%4, %3, %2, %10, 1, -100)
  %16: bf16[9, 6]{1, 9} &15 = aten::t.default(%15)
)" + kOutputs)));
}

/// A text with all tensors on a GPU.
std::string on_gpu(const std::string& text) {
  static const std::regex type("((?:bf16|f32|i64)\\[[0-9, ]*\\](?:\\{[0-9, ]*\\})?)");
  return std::regex_replace(text, type, "$1 cuda:0");
}

TEST(ChunkedLoss, OnAGpuRowsComeBeforeTheirSum) {
  expect_same(chunked(on_gpu(kForward + kBackward + kOutputs)), dce(graph_of(on_gpu(kInputs + R"(
  %8: f32[6] = antegrad::cross_entropy_rows.default(%4, %2, -100)
  %9: f32[], %10: f32[] = antegrad::cross_entropy_of_rows.default(%8, %2, 1, -100)
backward
  %15: bf16[6, 9] = antegrad::cross_entropy_backward.default(%4, %3, %2, %10, 1, -100)
  %16: bf16[9, 6]{1, 9} &15 = aten::t.default(%15)
)" + kOutputs))));
}

TEST(ChunkedLoss, NeedsNoBackward) {
  const std::string output = "outputs\n  %9 result\n";
  expect_same(chunked(kForward + output),
              dce(graph_of(kInputs +
                           "  %9: f32[], %10: f32[] = antegrad::cross_entropy.default(%4, %2, 1, "
                           "-100)\n" +
                           output)));
}

TEST(ChunkedLoss, WhatOthersReadStays) {
  expect_unchanged(kForward + kBackward +
                   "outputs\n  %9 result grad\n  %8 result\n  %16 gradient 0\n");
  expect_unchanged(kForward + kBackward + "outputs\n  %9 result grad\n  %14 gradient 0\n");
  expect_unchanged(kForward + "  %17: f32[6, 9] = aten::exp.default(%8)\n" + kBackward +
                   "outputs\n  %9 result grad\n  %17 result\n  %16 gradient 0\n");
}

TEST(ChunkedLoss, OtherLossesStay) {
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
    return text;
  };
  const auto all = kForward + kBackward + kOutputs;
  expect_unchanged(with(all, "bf16", "f32"));         // nothing is wider than the logits
  expect_unchanged(with(all, "1, -100", "0, -100"));  // a loss for each row
  expect_unchanged(with(all, "%7, 1, f", "%7, 0, f"));
}

}  // namespace chunked_loss_test
}  // namespace antegrad::testing
