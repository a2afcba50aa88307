// Which nodes become kernels, in which order the rest runs, and what is left of the graph.

#include "lower/kernel_graph.h"

#include "graph/generated_node.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "graphs.h"
#include "passes/reinplace.h"

namespace antegrad::testing {
namespace kernel_graph_test {

using lower::Capability;
using lower::EagerCpu;
using lower::KernelGraph;

constexpr EagerCpu kAvx2{Capability::avx2, lower::OneDnn::avx2};

constexpr const char* kInputs =
    "inputs\n  %0: f32[8, 16] primal argument 0\n  %1: f32[8, 16] primal argument 1\n"
    "  %2: f32[16, 4] primal argument 2\nnodes\n";

KernelGraph lowered(const std::string& nodes, const std::string& results,
                    const lower::Objections& objections = {},
                    lower::Level level = lower::Level::exact) {
  auto graph = graph_of(kInputs + nodes + "outputs\n" + results);
  verify(graph);
  auto made = lower::kernel_graph(std::move(graph), kAvx2, objections, level);
  verify(made.graph);
  return made;
}

/// "kernel 0: %0 %1 -> %5", or the operator with its values.
std::vector<std::string> lines_of(const KernelGraph& lowered) {
  std::vector<std::string> lines;
  for (const Node& node : lowered.graph.nodes) {
    std::string line = is_generated(node) ? fmt::format("kernel {}:", place_of_kernel(node))
                                          : short_name(node.op.name()) + ":";
    for (const ValueId id : node.inputs) line += fmt::format(" %{}", id);
    line += " ->";
    for (const ValueId id : node.outputs) line += fmt::format(" %{}", id);
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(KernelGraph, AChainBecomesOneNode) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 16] = aten::sigmoid.default(%3)\n"
      "  %5: f32[8, 16] = aten::add.Tensor(%4, %0, scalar(1))\n",
      "  %5 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %5"}));
  EXPECT_EQ(made.kernels.at(0).nodes, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(made.refused.empty());
}

// An input is overwritten at its last use, where each element is read before it is written.
TEST(KernelGraph, ResultsLieInMemoryThatNobodyReadsAfterwards) {
  const std::string nodes =
      "  %3: f32[8, 4] = aten::mm.default(%0, %2)\n"
      "  %4: f32[8, 4] = aten::mm.default(%1, %2)\n"
      "  %5: f32[8, 4] = aten::mul.Tensor(%3, %4)\n"
      "  %6: f32[8, 4] = aten::sigmoid.default(%5)\n";
  const auto storages = [](const Graph& graph) {
    std::string text;
    for (const Node& node : graph.nodes) {
      for (const ValueId id : node.outputs) text += fmt::format(" {}", graph.value(id).storage);
    }
    return text;
  };
  auto made = lowered(nodes, "  %6 result\n");
  EXPECT_EQ(memory_reuses(made.graph.nodes.at(2)), (std::vector<MemoryReuse>{{0, 0}, {0, 1}}));
  Graph graph = reinplace(std::move(made.graph));
  verify(graph);
  EXPECT_EQ(storages(graph), " 3 4 3");
  graph = reinplace(lowered(nodes, "  %3 result\n  %6 result\n").graph);
  EXPECT_EQ(storages(graph), " 3 4 4");
  graph = reinplace(lowered(nodes, "  %3 result\n  %4 result\n  %6 result\n").graph);
  EXPECT_EQ(storages(graph), " 3 4 6");
}

TEST(KernelGraph, OneNodeStaysACallOfTheLibrary) {
  const auto made = lowered("  %3: f32[8, 16] = aten::sigmoid.default(%0)\n", "  %3 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"sigmoid: %0 -> %3"}));
  EXPECT_TRUE(made.kernels.empty());
}

TEST(KernelGraph, OneNodeWithEnoughToDoIsAKernel) {
  auto graph = graph_of(
      "inputs\n  %0: f32[64, 64] primal argument 0\nnodes\n"
      "  %1: f32[64, 64] = aten::sigmoid.default(%0)\n"
      "  %2: f32[64, 64] = aten::zeros_like.default(%0, none, none, none, none, none)\n"
      "outputs\n  %1 result\n  %2 result\n");
  const auto made = lower::kernel_graph(std::move(graph), kAvx2);
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %0 -> %1", "zeros_like: %0 -> %2"}));
}

// The first part would lie where the input does.
TEST(KernelGraph, APartOfAResultDoesNotLieInMemoryOfAnInput) {
  auto graph = graph_of(
      "inputs\n  %0: f32[64, 64] primal argument 0\nnodes\n"
      "  %1: f32[64, 64] = aten::mm.default(%0, %0)\n"
      "  %2: f32[128, 64] = aten::cat.default({%1, %0}, 0)\n"
      "outputs\n  %2 result\n");
  const auto made = lower::kernel_graph(std::move(graph), kAvx2);
  ASSERT_EQ(made.kernels.size(), 1U);
  EXPECT_TRUE(memory_reuses(made.graph.nodes.at(1)).empty());
}

TEST(KernelGraph, WhatOthersReadInBetweenIsWritten) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 4] = aten::mm.default(%3, %2)\n"
      "  %5: f32[8, 16] = aten::sigmoid.default(%3)\n",
      "  %4 result\n  %5 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %3 %5", "mm: %3 %2 -> %4"}));
}

TEST(KernelGraph, AProductBetweenTwoNodesKeepsThemApart) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 4] = aten::mm.default(%3, %2)\n"
      "  %5: f32[16, 4] = aten::mul.Tensor(%2, %2)\n"
      "  %6: f32[4, 16]{1, 4} &5 = aten::t.default(%5)\n"
      "  %7: f32[8, 16] = aten::mm.default(%4, %6)\n"
      "  %8: f32[8, 16] = aten::add.Tensor(%3, %7, scalar(1))\n",
      "  %8 result\n");
  EXPECT_TRUE(made.kernels.empty()) << to_text(made.graph);
}

TEST(KernelGraph, AViewThatOthersReadStaysAndOneForMembersGoes) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[128] &3 = aten::view.default(%3, [128])\n"
      "  %5: f32[128] = aten::sigmoid.default(%4)\n"
      "  %6: f32[8, 16] &5 = aten::view.default(%5, [8, 16])\n"
      "  %7: f32[8, 4] = aten::mm.default(%6, %2)\n",
      "  %7 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %5", "view: %5 -> %6", "mm: %6 %2 -> %7"}));
}

TEST(KernelGraph, ARefusedNodeSplitsItsGroup) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 16] = aten::sigmoid.default(%3)\n"
      "  %5: f32[8, 16] = aten::digamma.default(%4)\n"
      "  %6: f32[8, 16] = aten::neg.default(%5)\n"
      "  %7: f32[8, 16] = aten::exp.default(%6)\n",
      "  %7 result\n");
  EXPECT_EQ(lines_of(made),
            (Lines{"kernel 0: %0 %1 -> %4", "digamma: %4 -> %5", "kernel 1: %5 -> %7"}));
  ASSERT_EQ(made.refused.size(), 1U);
  EXPECT_EQ(made.refused[0].op.name(), "aten::digamma.default");
  EXPECT_NE(made.refused[0].reason, "");
}

TEST(KernelGraph, AnObjectionKeepsTheNodes) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 16] = aten::sigmoid.default(%3)\n",
      "  %4 result\n", [](const auto&, const auto&) { return lower::Objection{"it was wrong"}; });
  EXPECT_EQ(lines_of(made), (Lines{"mul.Tensor: %0 %1 -> %3", "sigmoid: %3 -> %4"}));
  ASSERT_EQ(made.refused.size(), 2U);
  EXPECT_EQ(made.refused[0].reason, "it was wrong");
}

TEST(KernelGraph, AnObjectionMayDivideAGroupBeforeItsLastReduction) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
      "  %4: f32[8, 16] = aten::sigmoid.default(%3)\n"
      "  %5: f32[8] = aten::sum.dim_IntList(%4, [1], false, none)\n",
      "  %4 result\n  %5 result\n", [](const lower::GroupKernel& kernel, const auto&) {
        const bool rows = kernel.kernel.space == lower::Space::rows;
        return lower::Objection{rows ? "it was slow" : "", /*divides=*/true};
      });
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %4", "sum.dim_IntList: %4 -> %5"}));
  ASSERT_EQ(made.refused.size(), 1U);
  EXPECT_EQ(made.refused[0].reason, "it was slow");
}

// At AVX2, builds of ATen differ in the gradient of softmax.
TEST(KernelGraph, ADisprovedKernelIsMadeInItsSecondForm) {
  const auto ends_rows_apart = [](const lower::GroupKernel& kernel) {
    return std::ranges::any_of(kernel.kernel.code, [](const lower::Instruction& code) {
      return code.op == lower::Op::path;
    });
  };
  const std::string nodes =
      "  %3: f32[8, 16] = aten::_softmax_backward_data.default(%0, %1, 1, f32)\n"
      "  %4: f32[8, 16] = aten::neg.default(%3)\n";
  for (const bool other_build : {false, true}) {
    const auto made =
        lowered(nodes, "  %4 result\n", [&](const lower::GroupKernel& kernel, const auto&) {
          const bool wrong = ends_rows_apart(kernel) == other_build;
          return lower::Objection{.reason = wrong ? "it was wrong" : "", .disproved = wrong};
        });
    ASSERT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %4"}));
    EXPECT_EQ(ends_rows_apart(made.kernels[0].kernel), !other_build);
  }
}

TEST(KernelGraph, OnlyADisprovedKernelHasASecondForm) {
  const std::string nodes =
      "  %3: f32[8, 16] = aten::_softmax_backward_data.default(%0, %1, 1, f32)\n"
      "  %4: f32[8, 16] = aten::neg.default(%3)\n";
  for (const bool disproved : {false, true}) {
    int asked = 0;
    lowered(nodes, "  %4 result\n", [&](const lower::GroupKernel&, const auto&) {
      ++asked;
      return lower::Objection{.reason = "it was slow", .disproved = disproved};
    });
    EXPECT_EQ(asked, disproved ? 2 : 1);
  }
}

// A close kernel may be less accurate than libtorch's. Then the exact one has its errors.
TEST(KernelGraph, AnExactKernelTakesThePlaceOfADisprovedCloseOne) {
  using lower::Level;
  const std::string nodes =
      "  %3: f32[8, 16] = aten::_softmax_backward_data.default(%0, %1, 1, f32)\n"
      "  %4: f32[8, 16] = aten::neg.default(%3)\n";
  for (const Level right : {Level::close, Level::exact}) {
    const auto made = lowered(
        nodes, "  %4 result\n",
        [&](const lower::GroupKernel& kernel, const auto&) {
          const bool wrong = kernel.level != right;
          return lower::Objection{.reason = wrong ? "it was wrong" : "", .disproved = wrong};
        },
        Level::close);
    ASSERT_EQ(lines_of(made), (Lines{"kernel 0: %0 %1 -> %4"}));
    EXPECT_EQ(made.kernels[0].kernel.level, right);
  }
}

// Found as a crash: the nodes ran without it.
TEST(KernelGraph, ATensorOfWhichOnlyTheTypeMattersIsAnInput) {
  const auto made = lowered(
      "  %3: f32[8, 16] = aten::copy.default(%0, %1, false)\n"
      "  %4: f32[8, 16] = aten::sigmoid.default(%3)\n",
      "  %4 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"kernel 0: %1 %0 -> %4"}));
}

TEST(KernelGraph, ABatchNormalisationHasAKernelOfItsOwn) {
  const std::string inputs =
      "inputs\n  %0: f32[8, 4, 3, 3] primal argument 0\n  %1: f32[4] primal argument 1\n";
  const std::string norm =
      "nodes\n  %2: f32[8, 4, 3, 3], %3: f32[4], %4: f32[4], %5: f32[4], %6: f32[4] = "
      "aten::_native_batch_norm_legit_functional.default(%0, %1, %1, %1, %1, true, 0.1, 1e-05)\n";
  const auto kernels = [&](const std::string& rest) {
    return lines_of(lower::kernel_graph(graph_of(inputs + norm + rest), kAvx2));
  };
  EXPECT_EQ(kernels("outputs\n  %2 result\n  %3 result\n  %5 result\n"),
            (Lines{"kernel 0: %0 %1 -> %3 %5 %2"}));
  EXPECT_EQ(kernels("  %7: f32[8, 4, 3, 3] = aten::add.Tensor(%2, %0, scalar(1))\n"
                    "  %8: f32[8, 4, 3, 3] = aten::relu.default(%7)\n"
                    "outputs\n  %8 result\n  %4 result\n"),
            (Lines{"kernel 0: %0 %1 -> %4 %8"}));
}

// libtorch's would need memory for the logits and for their log_softmax at once.
TEST(KernelGraph, ALogSoftmaxThatMayWriteOverItsInputHasAKernelOfItsOwn) {
  const std::string nodes =
      "  %3: f32[8, 4] = aten::mm.default(%0, %2)\n"
      "  %4: f32[8, 4] = aten::_log_softmax.default(%3, 1, false)\n";
  const auto made = lowered(nodes, "  %4 result\n");
  EXPECT_EQ(lines_of(made), (Lines{"mm: %0 %2 -> %3", "kernel 0: %3 -> %4"}));
  EXPECT_EQ(memory_reuses(made.graph.nodes.at(1)), (std::vector<MemoryReuse>{{0, 0}}));
  // Where somebody else reads the logits, or they are an argument, nothing is gained.
  EXPECT_TRUE(lowered(nodes, "  %4 result\n  %3 result\n").kernels.empty());
  EXPECT_TRUE(
      lowered("  %3: f32[8, 16] = aten::_log_softmax.default(%0, 1, false)\n", "  %3 result\n")
          .kernels.empty());
}

TEST(KernelGraph, AGroupAloneHasItsNodesAndWhatTheKernelReadsAndWrites) {
  const auto graph = graph_of(std::string(kInputs) +
                              "  %3: f32[8, 16] = aten::mul.Tensor(%0, %1)\n"
                              "  %4: f32[8, 4] = aten::mm.default(%3, %2)\n"
                              "  %5: f32[8, 16] = aten::sigmoid.default(%3)\n"
                              "outputs\n  %4 result\n  %5 result\n");
  const auto made = lower::kernel_graph(graph, kAvx2);
  const auto alone = lower::group_alone(graph, made.kernels.at(0).nodes, made.graph.nodes.at(0));
  verify(alone);
  EXPECT_EQ(alone.inputs.size(), 2U);
  ASSERT_EQ(alone.nodes.size(), 2U);
  EXPECT_EQ(alone.nodes[1].op.name(), "aten::sigmoid.default");
  EXPECT_EQ(alone.outputs.size(), 2U);
}

TEST(KernelGraph, InFloat64AllFloatingPointTypesAreThat) {
  const auto graph = lower::in_float64(
      graph_of("inputs\n  %0: f32[8] primal argument 0\n  %1: i64[8] primal argument 1\nnodes\n"
               "  %2: bf16[8] = aten::_to_copy.default(%0, dtype=bf16, layout=none, device=none, "
               "pin_memory=none, non_blocking=false, memory_format=none)\n"
               "  %3: bf16[8] = aten::mul.Tensor(%2, %1)\noutputs\n  %3 result\n"));
  verify(graph);
  for (const ValueId id : {ValueId(0), ValueId(2), ValueId(3)}) {
    EXPECT_EQ(graph.value(id).meta.dtype, DType::f64);
  }
  EXPECT_EQ(graph.value(ValueId(1)).meta.dtype, DType::i64);
  EXPECT_EQ(graph.nodes[0].args[1].as<DType>(), DType::f64);
}

}  // namespace kernel_graph_test
}  // namespace antegrad::testing
