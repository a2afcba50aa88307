// The buffers are those in the code that PyTorch 2.13 generates for these expressions.

#include "fusion/inductor_buffers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "graphs.h"

namespace antegrad::testing {
namespace inductor_buffers_test {

/// "0 2": the ids of the nodes that have no buffer, of a graph with the input %0: f32[8, 16] on a
/// device and the result %9.
std::string without_buffer(const std::string& nodes, const std::string& on = "") {
  std::string text =
      "inputs\n  %0: f32[8, 16] primal argument 0\n  %1: i64[] primal argument 1\nnodes\n" + nodes +
      "outputs\n  %9 result\n";
  const std::string type = "f32[8, 16]";
  for (size_t at = 0; (at = text.find(type, at)) != text.npos; at += type.size()) {
    text.insert(at + type.size(), on);
  }
  const Graph graph = graph_of(text);
  verify(graph);
  std::vector<bool> fused(12, true);
  drop_inductor_buffers(graph, fused);
  std::string found;
  for (size_t id = 0; id < fused.size(); ++id) {
    const auto has_id = [&](const Node& node) { return node.id == static_cast<int32_t>(id); };
    if (fused[id] && std::ranges::any_of(graph.nodes, has_id))
      found += (found.empty() ? "" : " ") + std::to_string(id);
  }
  return found;
}

/// Reads %8 in two loops.
const std::string kReduction =
    "  %10: f32[8, 1] = aten::sum.dim_IntList(%8, dim=[1], keepdim=true, dtype=none)  # 10\n"
    "  %9: f32[8, 16] = aten::sub.Tensor(%8, %10, alpha=scalar(1))  # 11\n";
constexpr const char* kTwoReaders =
    "  %3: f32[8, 16] = aten::tanh.default(%0)  # 0\n"
    "  %4: f32[8, 16] = aten::relu.default(%3)  # 1\n"
    "  %8: f32[8, 16] = aten::mul.Tensor(%4, %3)  # 2\n";

TEST(InductorBuffers, AFunctionThatIsReadTwice) {
  EXPECT_EQ(without_buffer(kTwoReaders + kReduction), "1 2 10 11");
}

TEST(InductorBuffers, NoneInAKernelOfOneLoop) {
  EXPECT_EQ(
      without_buffer(std::string(kTwoReaders) + "  %9: f32[8, 16] = aten::neg.default(%8)  # 3\n"),
      "0 1 2 3");
}

TEST(InductorBuffers, WhatIsMadeOfAFunctionAndReadTwice) {
  EXPECT_EQ(without_buffer("  %3: f32[8, 16] = aten::exp.default(%0)  # 0\n"
                           "  %8: f32[8, 16] = aten::relu.default(%3)  # 1\n" +
                           kReduction),
            "0 10 11");
}

TEST(InductorBuffers, NoneForWhatIsCheapToComputeAgain) {
  EXPECT_EQ(without_buffer("  %3: f32[8, 16] = aten::neg.default(%0)  # 0\n"
                           "  %8: f32[8, 16] = aten::relu.default(%3)  # 1\n" +
                           kReduction),
            "0 1 10 11");
}

TEST(InductorBuffers, ADrawHasOneInAnyCase) {
  EXPECT_EQ(without_buffer("  %3: f32[8, 16] = prims::inductor_random.default(%1)  # 0\n"
                           "  %8: f32[8, 16] = aten::mul.Tensor(%0, %3)  # 1\n" +
                           kReduction),
            "1 10 11");
}

TEST(InductorBuffers, NoneOnOtherDevices) {
  EXPECT_EQ(without_buffer(kTwoReaders + kReduction, " cuda:0"), "0 1 2 10 11");
}

}  // namespace inductor_buffers_test
}  // namespace antegrad::testing
