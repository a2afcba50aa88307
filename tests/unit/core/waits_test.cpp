#include "passes/waits.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/verify.h"
#include "graphs.h"
#include "passes/collectives.h"
#include "passes/cse.h"
#include "passes/dce.h"

namespace antegrad::testing {
namespace waits_test {

const std::string kInput = "inputs\n  %0: f32[4] primal argument 0\nnodes\n";
const std::string kDouble = "  %1: f32[4] = aten::mul.Tensor(%0, %0)\n";
const std::string kStart =
    "  %2: f32[4] = _c10d_functional::all_reduce.default(%1, \"sum\", \"g\")\n";

void expect_paired(const std::string& before, const std::string& after, bool agreed = false) {
  const Graph found = pair_waits(graph_of(kInput + before), agreed);
  EXPECT_NO_THROW(verify(found));
  expect_same(found, graph_of(kInput + after));
}

// What it returns is read by its own name, or by that of the tensor which is the same.
TEST(PairWaits, LetsAllReadWhatOneWaitReturns) {
  const std::string wait = "  %3: f32[4] = _c10d_functional::wait_tensor.default(%2)\n";
  const std::string own = "  %6: f32[4] = antegrad::wait_once.default(%2, {%1}, \"g\") # 0\n";
  const std::string outputs = "outputs\n  %5 result\n";
  expect_paired(
      kDouble + kStart + wait + "  %5: f32[4] = aten::add.Tensor(%3, %2, scalar(1))\n" + outputs,
      kDouble + kStart + own + "  %5: f32[4] = aten::add.Tensor(%6, %6, scalar(1))\n" + outputs);
}

// A view that was made before it is one of the result.
TEST(PairWaits, StandBeforeTheFirstReader) {
  expect_paired(kDouble + kStart +
                    "  %3: f32[2, 2] &2 = aten::view.default(%2, [2, 2])\n"
                    "  %4: f32[4] = _c10d_functional::wait_tensor.default(%2)\n"
                    "  %5: f32[2, 2] = aten::sin.default(%3)\n"
                    "outputs\n  %5 result\n  %2 result\n",
                kDouble + kStart +
                    "  %6: f32[4] = antegrad::wait_once.default(%2, {%1}, \"g\") # 0\n"
                    "  %3: f32[2, 2] &6 = aten::view.default(%6, [2, 2])\n"
                    "  %5: f32[2, 2] = aten::sin.default(%3)\n"
                    "outputs\n  %5 result\n  %6 result\n");
}

// Nobody waits, or reads what it returns.
TEST(PairWaits, EndEachCollective) {
  const std::string between = "  %5: f32[4] = aten::sin.default(%1)\n";
  const std::string wait = "  %6: f32[4] = antegrad::wait_once.default(%2, {%1}, \"g\") # 0\n";
  expect_paired(kDouble + kStart + between + "outputs\n  %5 result\n",
                kDouble + kStart + between + wait + "outputs\n  %5 result\n");
  expect_paired(kDouble + kStart + between + "outputs\n  %5 result\n  %2 result\n",
                kDouble + kStart + between + wait + "outputs\n  %5 result\n  %6 result\n");
}

TEST(PairWaits, HasOneForEachTensorOfAList) {
  const std::string inputs =
      "inputs\n  %0: f32[4] primal argument 0\n  %1: f32[2] primal argument 1\nnodes\n";
  const std::string start =
      "  %2: f32[4], %3: f32[2] = _c10d_functional::all_reduce_coalesced.default({%0, %1}, "
      "\"sum\", "
      "\"g\")\n";
  const Graph found = pair_waits(graph_of(inputs + start + "outputs\n  %3 result\n"), false);
  EXPECT_NO_THROW(verify(found));
  expect_same(found,
              graph_of(inputs + start +
                       "  %4: f32[4] = antegrad::wait_once.default(%2, {%0, %1}, \"g\") # 0\n"
                       "  %5: f32[2] = antegrad::wait_once.default(%3, {%0, %1}, \"g\") # 1\n"
                       "outputs\n  %5 result\n"));
}

// Not where the program waits for it.
TEST(PairWaits, LetOthersComputeFirst) {
  const std::string other = "  %4: f32[4] = aten::sin.default(%1)\n";
  const std::string sum = "  %5: f32[4] = aten::add.Tensor(";
  const std::string outputs = "outputs\n  %5 result\n";
  expect_paired(kDouble + kStart + "  %3: f32[4] = _c10d_functional::wait_tensor.default(%2)\n" +
                    other + sum + "%4, %3, scalar(1))\n" + outputs,
                kDouble + kStart + other +
                    "  %6: f32[4] = antegrad::wait_once.default(%2, {%1}, \"g\") # 0\n" + sum +
                    "%4, %6, scalar(1))\n" + outputs);
}

// Neither of which is left out, repeated or merged, unless the option says so.
const std::string kTwice =
    kDouble + kStart + "  %3: f32[4] = _c10d_functional::wait_tensor.default(%2)\n" +
    "  %4: f32[4] = _c10d_functional::all_reduce.default(%1, \"sum\", \"g\")\n"
    "  %5: f32[4] = _c10d_functional::wait_tensor.default(%4)\n"
    "  %6: f32[4] = aten::add.Tensor(%3, %5, scalar(1))\n"
    "  %7: f32[4] = _c10d_functional::all_reduce.default(%0, \"max\", \"g\")\n"
    "outputs\n  %6 result\n";

int64_t starts_after_passes(bool agreed) {
  const Graph graph = dce(cse(pair_waits(graph_of(kInput + kTwice), agreed)));
  EXPECT_NO_THROW(verify(graph));
  return std::ranges::count_if(graph.nodes, starts_collective);
}

TEST(PairWaits, KeepEachCollective) { EXPECT_EQ(starts_after_passes(false), 3); }

TEST(PairWaits, MayUseOperatorsThatRunAgain) {
  EXPECT_EQ(starts_after_passes(true), 1);
  expect_paired(kDouble + kStart + "outputs\n  %2 result\n",
                kDouble +
                    "  %2: f32[4] = antegrad::agreed_all_reduce.default(%1, \"sum\", \"g\")\n"
                    "  %3: f32[4] = antegrad::agreed_wait.default(%2, {%1}, \"g\") # 0\n"
                    "outputs\n  %3 result\n",
                /*agreed=*/true);
}

// A collective of the callable's, like one of antegrad's.
TEST(PairWaits, LetCollectivesOverlap) {
  const std::string first =
      "  %1: f32[4] = _c10d_functional::all_reduce.default(%0, \"sum\", \"g\")\n";
  const std::string end = "  %2: f32[4] = antegrad::wait_once.default(%1, {%0}, \"g\")\n";
  const std::string square = "  %3: f32[4] = aten::mul.Tensor(%0, %0)\n";
  const std::string second =
      "  %4: f32[4] = _c10d_functional::all_reduce.default(%3, \"sum\", \"g\")\n";
  const std::string last = "  %5: f32[4] = antegrad::wait_once.default(%4, {%3}, \"g\")\n";
  const std::string cosine = "  %6: f32[4] = aten::cos.default(%0)\n";
  const std::string outputs = "outputs\n  %2 result\n  %5 result\n  %6 result\n";
  const Graph found = overlap_collectives(
      graph_of(kInput + square + first + end + second + last + cosine + outputs), 1);
  EXPECT_NO_THROW(verify(found));
  expect_same(found, graph_of(kInput + first + square + end + second + cosine + last + outputs));
}

// Not before all that it reads is there.
TEST(PairWaits, LetListsStartWhereTheyCan) {
  const std::string list =
      "  %1: f32[4] = aten::sin.default(%0)\n  %2: f32[4] = aten::cos.default(%0)\n"
      "  %3: f32[4], %4: f32[4] = _c10d_functional::all_reduce_coalesced.default({%0, %2}, "
      "\"sum\", \"g\")\n"
      "  %5: f32[4] = antegrad::wait_once.default(%3, {%0, %2}, \"g\")\n"
      "  %6: f32[4] = antegrad::wait_once.default(%4, {%0, %2}, \"g\")\n"
      "outputs\n  %1 result\n  %5 result\n  %6 result\n";
  EXPECT_NO_THROW(verify(overlap_collectives(graph_of(kInput + list), 1)));
}

TEST(PairWaits, AreComparedWithOtherRanks) {
  const Graph found = agree_on_collectives(graph_of(
      "inputs\n  %0: f32[4] primal argument 0\nnodes\n"
      "  %1: f32[4] = _c10d_functional::all_reduce.default(%0, \"max\", \"g\")\n"
      "  %2: f32[4] = antegrad::wait_once.default(%1, {%0}, \"g\")\n"
      "  %3: f32[6] = _c10d_functional::all_to_all_single.default(%0, [2, 4], [1, 3], \"g\")\n"
      "  %4: f32[6] = antegrad::wait_once.default(%3, {%0}, \"g\")\n"
      "outputs\n  %2 result\n  %4 result\n"));
  ASSERT_EQ(found.nodes.front().op.name(), "antegrad::agree.default");
  EXPECT_EQ(found.nodes.front().args.back().as<std::string>(),
            "_c10d_functional::all_reduce max f32[4]\n"
            "_c10d_functional::all_to_all_single f32[]\n");
}

}  // namespace waits_test
}  // namespace antegrad::testing
