#include "passes/join_gathers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/verify.h"
#include "graphs.h"
#include "passes/collectives.h"

namespace antegrad::testing {
namespace join_gathers_test {

// Three small shards and a large one.
const std::string kInputs = R"(inputs
  %0: f32[8] primal argument 0
  %1: f32[4] primal argument 1 grad
  %2: f32[2] primal argument 2 grad
  %3: f32[4] primal argument 3 grad
  %4: f32[64] primal argument 4 grad
nodes
)";

std::string gather(int shard, int elements, int result, const std::string& dtype = "f32") {
  return fmt::format(
      "  %{0}: {3}[{1}] = antegrad::all_gather.default(%{2}, 2, \"g\")\n"
      "  %{4}: {3}[{1}] &{0} = antegrad::wait.default(%{0}, %{2})\n",
      result, 2 * elements, shard, dtype, result + 1);
}

Graph joined(const std::string& nodes, int64_t bytes) {
  Graph graph = join_gathers(graph_of(kInputs + nodes), bytes);
  EXPECT_NO_THROW(verify(graph));
  return graph;
}

const std::string kTwo = gather(1, 4, 10) + "  %12: f32[8] = aten::mul.Tensor(%0, %11)\n" +
                         gather(2, 2, 13) +
                         "  %15: f32[2, 2] &13 = aten::view.default(%14, [2, 2])\n"
                         "  %16: f32[2, 2] = aten::sin.default(%15)\n"
                         "outputs\n  %12 result\n  %16 result\n";

TEST(JoinGathers, MakesOneOfThoseThatFollowEachOther) {
  expect_same(
      joined(kTwo, 64),
      graph_of(kInputs + "  %19: f32[6] = antegrad::join.default({%1, %2}, [0, 4], 6, f32)\n"
                         "  %20: f32[12] = antegrad::all_gather.default(%19, 2, \"g\")\n"
                         "  %21: f32[12] &20 = antegrad::wait.default(%20, %19)\n"
                         "  %17: f32[8] = antegrad::unpack.default(%21, 2, 0, 4)\n"
                         "  %12: f32[8] = aten::mul.Tensor(%0, %17)\n"
                         "  %18: f32[4] = antegrad::unpack.default(%21, 2, 4, 2)\n"
                         "  %15: f32[2, 2] &18 = aten::view.default(%18, [2, 2])\n"
                         "  %16: f32[2, 2] = aten::sin.default(%15)\n"
                         "outputs\n  %12 result\n  %16 result\n"));
}

TEST(JoinGathers, LeavesThoseThatHaveMoreBytes) {
  for (const int64_t bytes : {0, 47}) expect_same(joined(kTwo, bytes), graph_of(kInputs + kTwo));
  // Two of them have 48 and 64 bytes; a large one lies between others.
  const auto three = gather(1, 4, 10) + gather(2, 2, 12) + gather(3, 4, 14) +
                     "  %16: f32[8] = aten::add.Tensor(%11, %15, scalar(1))\n"
                     "outputs\n  %16 result\n  %13 result\n";
  const auto apart = gather(1, 4, 10) + gather(4, 64, 12) + gather(3, 4, 14) +
                     "  %16: f32[8] = aten::add.Tensor(%11, %15, scalar(1))\n"
                     "  %17: f32[128] = aten::sin.default(%13)\n"
                     "outputs\n  %16 result\n  %17 result\n";
  expect_same(joined(apart, 128), graph_of(kInputs + apart));
  expect_same(joined(three, 60), graph_of(kInputs + three));  // one is a result
}

// Of another dtype they are packed as that, and start as early as others.
TEST(JoinGathers, CastsWhileItPacks) {
  const auto cast = [](int shard, int elements, int result) {
    return fmt::format(
        "  %{}: f16[{}] = aten::_to_copy.default(%{}, f16, none, none, none, false, none)\n",
        result, elements, shard);
  };
  const auto nodes = "  %30: f32[8] = aten::sin.default(%0)\n" + cast(1, 4, 10) +
                     gather(10, 4, 11, "f16") + cast(2, 2, 13) + gather(13, 2, 14, "f16") +
                     "  %16: f16[8] = aten::sin.default(%12)\n"
                     "  %17: f16[4] = aten::sin.default(%15)\n"
                     "outputs\n  %16 result\n  %17 result\n  %30 result\n";
  const auto graph = overlap_collectives(joined(nodes, 1024), 1);
  EXPECT_NO_THROW(verify(graph));
  ASSERT_GE(graph.nodes.size(), 3U);
  EXPECT_EQ(graph.nodes[0].op.name(), "antegrad::join.default");
  EXPECT_EQ(graph.nodes[0].args.back().as<DType>(), DType::f16);
  EXPECT_EQ(graph.nodes[1].op.name(), "antegrad::all_gather.default");
  EXPECT_EQ(graph.nodes[2].op.name(), "aten::sin.default");
  EXPECT_EQ(graph.nodes.size(), 8U);
}

}  // namespace join_gathers_test
}  // namespace antegrad::testing
