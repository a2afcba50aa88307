#include "passes/collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "graph/verify.h"
#include "graphs.h"
#include "partition/default_partition.h"
#include "partition/min_cut.h"

namespace antegrad::testing {
namespace collectives_test {

// Three shards, the second of which is gathered in another dtype.
const std::string kShards = R"(inputs
  %0: f32[8] primal argument 0
  %1: f32[4] primal argument 1 grad
  %2: f32[4] primal argument 2 grad
  %3: f32[4] primal argument 3 grad
nodes
)";
const std::string kResult = "outputs\n  %17 result\n";

const std::string kStart1 = "  %4: f32[8] = antegrad::all_gather.default(%1, 2, \"g\")\n";
const std::string kWait1 = "  %5: f32[8] &4 = antegrad::wait.default(%4, %1)\n";
const std::string kUse1 = "  %6: f32[8] = aten::mul.Tensor(%0, %5)\n";
const std::string kStart2 =
    "  %7: f16[4] = aten::_to_copy.default(%2, f16, none, none, none, false, none)\n"
    "  %8: f16[8] = antegrad::all_gather.default(%7, 2, \"g\")\n";
const std::string kWait2 = "  %9: f16[8] &8 = antegrad::wait.default(%8, %7)\n";
const std::string kUse2 = "  %10: f32[8] = aten::mul.Tensor(%6, %9)\n";
const std::string kStart3 = "  %11: f32[8] = antegrad::all_gather.default(%3, 2, \"g\")\n";
const std::string kWait3 = "  %12: f32[8] &11 = antegrad::wait.default(%11, %3)\n";
const std::string kUse3 = "  %17: f32[8] = aten::mul.Tensor(%10, %12)\n";

void expect_overlap(const std::string& inputs, const std::string& before, int64_t ahead,
                    const std::string& after) {
  const Graph expected = graph_of(inputs + after);
  const Graph found = overlap_collectives(graph_of(inputs + before), ahead);
  expect_same(found, expected);
  EXPECT_NO_THROW(verify(found));
}

TEST(Overlap, StartsAsManyGathersAheadAsWanted) {
  const auto plain =
      kStart1 + kWait1 + kUse1 + kStart2 + kWait2 + kUse2 + kStart3 + kWait3 + kUse3 + kResult;
  expect_overlap(kShards, plain, 0, plain);
  expect_overlap(
      kShards, plain, 1,
      kStart1 + kWait1 + kStart2 + kUse1 + kWait2 + kStart3 + kUse2 + kWait3 + kUse3 + kResult);
  expect_overlap(
      kShards, plain, 2,
      kStart1 + kStart2 + kWait1 + kStart3 + kUse1 + kWait2 + kUse2 + kWait3 + kUse3 + kResult);
  const auto all =
      kStart1 + kStart2 + kStart3 + kWait1 + kUse1 + kWait2 + kUse2 + kWait3 + kUse3 + kResult;
  expect_overlap(kShards, plain, 3, all);
  expect_overlap(kShards, plain, 100, all);
}

// Two reductions of what is computed one after the other.
const std::string kValues = R"(inputs
  %0: f32[8] primal argument 0
  %1: f32[8] primal argument 1
nodes
)";

TEST(Overlap, EndsReductionsBeforeTheNextOneBegins) {
  const std::string first =
      "  %2: f32[8] = aten::neg.default(%0)\n"
      "  %3: f32[8] = antegrad::pack.default({%2}, [0], 8, f32, \"g/0\")\n"
      "  %4: f32[2, 4] = antegrad::all_to_all.default(%3, 2, \"g\")\n";
  const std::string end =
      "  %5: f32[2, 4] &4 = antegrad::wait.default(%4, %3)\n"
      "  %6: f32[4] = aten::sum.dim_IntList(%5, [0], false, none)\n";
  const std::string between = "  %7: f32[8] = aten::neg.default(%1)\n";
  const std::string second =
      "  %8: f32[8] = antegrad::pack.default({%7}, [0], 8, f32, \"g/0\")\n"
      "  %9: f32[2, 4] = antegrad::all_to_all.default(%8, 2, \"g\")\n";
  const std::string second_end =
      "  %10: f32[2, 4] &9 = antegrad::wait.default(%9, %8)\n"
      "  %11: f32[4] = aten::sum.dim_IntList(%10, [0], false, none)\n";
  const std::string last = "  %12: f32[8] = aten::sin.default(%7)\n";
  const std::string outputs = "outputs\n  %6 result\n  %11 result\n  %12 result\n";
  expect_overlap(kValues, first + end + between + second + second_end + last + outputs, 1,
                 first + between + end + second + last + second_end + outputs);
}

// A reduction and a gather of its result, twice: each runs while the next input is made.
TEST(Overlap, EndsEachPartOfAnAllReduceOneInputLater) {
  const std::string values = R"(inputs
  %0: f32[8] primal argument 0
  %1: f32[8] primal argument 1
  %2: f32[8] primal argument 2
nodes
)";
  const auto line = [](const char* text, auto... ids) {
    return fmt::format(fmt::runtime(text), ids...);
  };
  const auto input = [&](int from, int id) {
    return line("  %{}: f32[8] = aten::neg.default(%{})\n", id, from);
  };
  const auto exchange = [&](int from, int id) {
    return line(
        "  %{1}: f32[8] = antegrad::pack.default({{%{0}}}, [0], 8, f32, \"g/0\")\n"
        "  %{2}: f32[2, 4] = antegrad::all_to_all.default(%{1}, 2, \"g\")\n",
        from, id, id + 1);
  };
  const auto sum = [&](int from, int id) {
    return line(
        "  %{2}: f32[2, 4] &{1} = antegrad::wait.default(%{1}, %{0})\n"
        "  %{3}: f32[4] = aten::sum.dim_IntList(%{2}, [0], false, none)\n"
        "  %{4}: f32[8] = antegrad::all_gather.default(%{3}, 2, \"g\")\n",
        from - 1, from, id, id + 1, id + 2);
  };
  const auto end = [&](int from, int id) {
    return line("  %{2}: f32[8] &{1} = antegrad::wait.default(%{1}, %{0})\n", from - 1, from, id);
  };
  const std::string outputs = "outputs\n  %9 result\n  %16 result\n  %23 result\n";
  std::string before;
  for (const int i : {0, 1, 2}) {
    const int id = 3 + 7 * i;
    before += input(i, id) + exchange(id, id + 1) + sum(id + 2, id + 3) + end(id + 5, id + 6);
  }
  auto after = input(0, 3) + exchange(3, 4);
  after += input(1, 10) + sum(5, 6) + exchange(10, 11);
  after += input(2, 17) + end(8, 9) + sum(12, 13) + exchange(17, 18);
  after += end(15, 16) + sum(19, 20) + end(22, 23);
  expect_overlap(values, before + outputs, 1, after + outputs);
}

TEST(Agree, ComparesTheCollectivesOfEachGroupFirst) {
  const std::string nodes =
      "  %4: f32[8] = antegrad::all_gather.default(%1, 2, \"g\")\n"
      "  %5: f32[8] &4 = antegrad::wait.default(%4, %1)\n"
      "  %6: f32[2, 4] = antegrad::all_to_all.default(%5, 2, \"h\")\n"
      "  %7: f32[2, 4] &6 = antegrad::wait.default(%6, %5)\n"
      "outputs\n  %7 result\n";
  expect_same(
      agree_on_collectives(graph_of(kShards + nodes)),
      graph_of(kShards +
               "  antegrad::agree.default(\"g\", \"antegrad::all_gather f32[8]\\n\") # 0\n"
               "  antegrad::agree.default(\"h\", \"antegrad::all_to_all f32[8]\\n\") # 1\n" +
               nodes));
  const auto without = graph_of(kShards +
                                "  %4: f32[8] = aten::neg.default(%0)\n"
                                "outputs\n  %4 result\n");
  expect_same(agree_on_collectives(Graph(without)), without);
}

// A gather is made again in the backward, as the first node of what is, and nothing that comes from
// it is saved.
const std::string kTrained = R"(inputs
  %0: f32[4, 4] primal argument 0
  %1: f32[8] primal parameter "w" grad
  %9: f32[4, 4] tangent 0
nodes
  %2: f32[16] = antegrad::all_gather.default(%1, 2, "g") TAG
  %3: f32[16] &2 = antegrad::wait.default(%2, %1) TAG
  %4: f32[4, 4] &2 = aten::view.default(%3, [4, 4]) TAG
  %5: f32[4, 4] = aten::mm.default(%0, %4)
  %6: f32[4, 4] = aten::sin.default(%5)
backward
  %7: f32[4, 4] = aten::mm.default(%9, %4)
  %8: f32[4, 4] = aten::mul.Tensor(%7, %5)
  %10: f32[16] = antegrad::pack.default({%8}, [0], 16, f32, "g/0")
  %11: f32[2, 8] = antegrad::all_to_all.default(%10, 2, "g")
  %12: f32[2, 8] &11 = antegrad::wait.default(%11, %10)
  %13: f32[8] = aten::sum.dim_IntList(%12, [0], false, none)
outputs
  %6 result
  %13 gradient 1
)";

std::string trained(const std::string& tag) {
  auto text = kTrained;
  for (auto at = text.find("TAG"); at != std::string::npos; at = text.find("TAG")) {
    text.replace(at, 3, tag);
  }
  return text;
}

std::vector<ValueId> saved_in(const Partition& partition) {
  std::vector<ValueId> saved;
  for (const auto& slot : partition.plan.saved) saved.push_back(slot.value);
  return saved;
}

TEST(Gathers, RunAgainInTheBackwardWhateverPartitionsTheGraph) {
  const std::vector<ValueId> shard_and_product = {ValueId(1), ValueId(5)};
  for (const auto& partition :
       {default_partition(graph_of(trained("must_recompute"))),
        min_cut_partition(graph_of(trained("must_recompute")), MinCutOptions())}) {
    EXPECT_EQ(saved_in(partition), shard_and_product);
    const auto again = std::ranges::count_if(partition.backward.nodes, [](const Node& node) {
      return node.op.name() == "antegrad::all_gather.default";
    });
    EXPECT_EQ(again, 1);
  }
}

// The shard is what the wait, which is a view, reads besides.
TEST(Gathers, AreKeptWhereTheyMustBe) {
  EXPECT_EQ(saved_in(default_partition(graph_of(trained("must_save")))),
            (std::vector{ValueId(1), ValueId(2), ValueId(5)}));
}

}  // namespace collectives_test
}  // namespace antegrad::testing
