#include "explain/kernel_list.h"

#include <antegrad/error.h>

#include <nlohmann/json.hpp>

#include "graphs.h"
#include "lower/kernel_graph.h"
#include "lower/text.h"

namespace antegrad::testing {
namespace kernel_list_test {

using lower::Capability;
using lower::EagerCpu;

constexpr EagerCpu kTwoThreads{Capability::avx2, lower::OneDnn::avx2, 2};

/// Two equal kernels, one over rows, a matrix product, and a node without neighbours.
const char* const kSections =
    "inputs\n  %0: f32[40000] primal argument 0\n  %1: f32[8, 64] primal argument 1\n"
    "  %2: f32[64, 8] primal argument 2\nnodes\n"
    "  %3: f32[40000] = aten::neg.default(%0)\n"
    "  %4: f32[40000] = aten::abs.default(%3)\n"
    "  %5: f32[8, 8] = aten::mm.default(%1, %2)\n"
    "  %6: f32[8, 64] = aten::mul.Tensor(%1, %1)\n"
    "  %7: f32[8, 1] = aten::sum.dim_IntList(%6, [-1], true, none)\n"
    "  %8: f32[8, 8] = aten::relu.default(%5)\n"
    "  %9: f32[8, 8] = aten::mm.default(%8, %8)\n"
    "  %10: f32[40000] = aten::sort.default(%4)\n"
    "  %11: f32[40000] = aten::neg.default(%10)\n"
    "  %12: f32[40000] = aten::abs.default(%11)\n"
    "outputs\n  %9 result\n  %7 result\n  %12 result\n";

TEST(KernelList, HasTheKernelsThatLoweringMakes) {
  const Graph graph = graph_of(kSections);
  const KernelList list = kernel_list(graph, kTwoThreads);
  ASSERT_EQ(list.kernels.size(), lower::kernel_graph(graph, kTwoThreads).kernels.size());
  ASSERT_EQ(list.kernels.size(), 3u);
  const ListedKernel& first = list.kernels[0];
  EXPECT_EQ(first.operators, (std::vector<std::string>{"aten::neg.default", "aten::abs.default"}));
  EXPECT_EQ(first.reads, std::vector{ValueId(0)});
  EXPECT_EQ(first.writes, std::vector{ValueId(4)});
  EXPECT_EQ(first.bytes_read, 40000 * 4);
  EXPECT_EQ(first.bytes_written, 40000 * 4);
  EXPECT_EQ(first.bytes_unfused, 4 * 40000 * 4);
  EXPECT_EQ(first.threads, 2);  // more than 32768 elements
  EXPECT_EQ(list.kernels[1].kernel.space, lower::Space::rows);
  EXPECT_EQ(list.kernels[1].bytes_written, 8 * 4);
}

TEST(KernelList, SaysWhyTheOthersStayLibraryCalls) {
  const KernelList list = kernel_list(graph_of(kSections), kTwoThreads);
  std::string calls;
  for (const LibraryCalls& call : list.calls) {
    calls += fmt::format("{} {}: {}\n", call.nodes, call.op, call.reason);
  }
  EXPECT_EQ(calls,
            "2 aten::mm.default: has no recipe\n"
            "1 aten::relu.default: no neighbour to compute it with\n"
            "1 aten::sort.default: has no recipe\n");
}

TEST(KernelList, EqualKernelsShareARow) {
  const KernelList list = kernel_list(graph_of(kSections), kTwoThreads);
  const std::string text = to_text(list);
  EXPECT_NE(text.find("run 3 times and compute 6 nodes; libtorch's kernels run 4 times"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  2  elements        2  156 KiB  156 KiB     625 KiB  %4 %12  "
                      "neg.default, abs.default\n"),
            std::string::npos)
      << text;
  EXPECT_NE(to_text(list, 1).find("... and 1 smaller ones"), std::string::npos);
  const nlohmann::json json = to_json(list);
  EXPECT_EQ(json["kernels"].size(), 3u);
  EXPECT_EQ(json["kernels"][2]["writes"][0], "%12");
  EXPECT_EQ(json["library"][0]["nodes"], 2);
}

TEST(KernelList, SourcesAreThoseOfTheKernelsEachOnce) {
  const KernelList list = kernel_list(graph_of(kSections), kTwoThreads);
  const std::string ir = kernel_source({&list, 1}, KernelSource::ir, "", Capability::avx2);
  EXPECT_EQ(ir.find("antegrad.kernel"),
            ir.find("antegrad.kernel 1 " + list.kernels[0].kernel.name));
  EXPECT_NE(ir.find("#   %3: f32[40000] = aten::neg.default(%0)\n"), std::string::npos) << ir;
  const std::string& name = list.kernels[0].kernel.name;
  const std::string one =
      kernel_source({&list, 1}, KernelSource::ir, name.substr(0, 12), Capability::avx2);
  EXPECT_EQ(lower::parse_kernel(one), list.kernels[0].kernel);
  const std::string c = kernel_source({&list, 1}, KernelSource::c, "", Capability::avx2);
  const std::string function = "void " + name + "(";
  EXPECT_NE(c.find(function), std::string::npos);
  EXPECT_EQ(c.find(function), c.rfind(function));
  expect_error<GraphError>(
      [&] {
        kernel_source({&list, 1}, KernelSource::c, "group_x", Capability::avx2);
      },
      "whose name starts with group_x");
}

TEST(KernelList, NothingIsGeneratedForSymbolsAndTwice) {
  Graph symbolic = graph_from_file("views.agraph");
  const KernelList list = kernel_list(symbolic, kTwoThreads);
  EXPECT_TRUE(list.kernels.empty());
  ASSERT_FALSE(list.calls.empty());
  EXPECT_EQ(list.calls[0].reason, "sizes of the graph are symbols");
  const Graph lowered = lower::kernel_graph(graph_of(kSections), kTwoThreads).graph;
  expect_error<GraphError>([&] { kernel_list(lowered, kTwoThreads); }, "before it is lowered");
}

}  // namespace kernel_list_test
}  // namespace antegrad::testing
