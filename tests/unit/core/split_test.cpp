#include "partition/split.h"

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "partition/default_partition.h"
#include "partitions.h"

namespace antegrad::testing {
namespace split_test {

TEST(Split, RecomputesWhatIsNotSaved) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::neg.default(%0)  # 0
  %2: f32[4] = aten::cos.default(%1)  # 1
  %3: f32[4] = aten::relu.default(%2)  # 2
backward
  %4: f32[4] = aten::mul.Tensor(%9, %2)  # 3
outputs
  %3 result
  %4 gradient 0
)");
  const Partition partition = split_at(joint, saving(joint, {0}));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal");
  EXPECT_EQ(node_list(partition.backward),
            "%1: f32[4] = aten::neg.default(%0)\n"
            "%2: f32[4] = aten::cos.default(%1)\n"
            "%4: f32[4] = aten::mul.Tensor(%9, %2)\n");
  EXPECT_EQ(partition.backward.nodes[0].id, 0);
  EXPECT_EQ(partition.forward.nodes.size(), 3u);
}

TEST(Split, OutputsOfARecomputedNodeAreSavedAsWellWhereThatIsWanted) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4], %2: f32[4] = aten::frexp.Tensor(%0)
  %3: f32[4] = aten::add.Tensor(%1, %2, scalar(1))
backward
  %4: f32[4] = aten::mul.Tensor(%9, %1)
  %5: f32[4] = aten::mul.Tensor(%4, %2)
outputs
  %3 result
  %5 gradient 0
)");
  const Partition partition = split_at(joint, saving(joint, {0, 2}));
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%0 primal, %2 intermediate");
}

TEST(Split, RefusesToDrawTwiceWithoutTheState) {
  const Graph joint = graph_from_file("dropout.agraph");
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  saved[3] = saved[5] = false;
  for (const ValueId id : saved.ids()) {
    if (joint.values[id].kind == ValueKind::token) saved[id] = false;
  }
  expect_error<GraphError>([&] { split_at(joint, saved); }, "or the states they began with");
}

const std::string kDraws = R"(generators cpu, user:1:cpu
inputs
  %0: f32[4] primal argument 0 grad
  %1: token generator 0
  %2: token generator 1
  %9: f32[4] tangent 0
nodes
  %3: f32[4], %4: token = aten::bernoulli.p(%0, p=0.5, generator=none; %1)
  %5: f32[4], %6: token = aten::bernoulli.p(%3, p=0.5, generator=generator(1); %2)
  %7: f32[4], %8: token = aten::bernoulli.p(%5, p=0.5, generator=none; %4)
  %10: f32[4] = aten::mul.Tensor(%0, %7)
backward
  %11: f32[4] = aten::mul.Tensor(%9, %7)
outputs
  %10 result grad
  %8 generator 0
  %6 generator 1
  %11 gradient 0
)";

TEST(Split, ADrawRunsAgainFromItsSavedState) {
  const Graph joint = graph_of(kDraws);
  IdMap<ValueId, bool> saved(joint.values.size(), false);
  for (const ValueId id : saved.ids()) {
    saved[id] = joint.values[id].kind == ValueKind::token;
  }
  const Partition partition = split_at(joint, saved);
  verify_both(partition);
  EXPECT_EQ(saved_text(partition),
            "%0 primal, %1 generator state, %2 generator state, %4 generator state");
  // All draws of the forward are still there, and those of the backward have no final token.
  const auto sections = [](const Graph& graph) {
    const std::string text = to_text(graph);
    return text.substr(text.find("inputs"));
  };
  EXPECT_EQ(sections(partition.forward), R"(inputs
  %0: f32[4]                          primal argument 0 grad
  %1: token                           generator 0
  %2: token                           generator 1
nodes
  %3: f32[4], %4: token = aten::bernoulli.p(%0, p=0.5, generator=none; %1)
  %5: f32[4], %6: token = aten::bernoulli.p(%3, p=0.5, generator=generator(1); %2)
  %7: f32[4], %8: token = aten::bernoulli.p(%5, p=0.5, generator=none; %4)
  %10: f32[4] = aten::mul.Tensor(%0, %7)
outputs
  %10 result grad
  %8 generator 0
  %6 generator 1
  %0 saved
  %1 saved 0
  %2 saved 1
  %4 saved 0
)");
  EXPECT_EQ(sections(partition.backward), R"(inputs
  %0: f32[4]                          saved
  %1: token                           saved 0
  %2: token                           saved 1
  %4: token                           saved 0
  %9: f32[4]                          tangent 0
nodes
  %3: f32[4], %12: token = aten::bernoulli.p(%0, p=0.5, generator=none; %1)
  %5: f32[4], %13: token = aten::bernoulli.p(%3, p=0.5, generator=generator(1); %2)
  %7: f32[4], %14: token = aten::bernoulli.p(%5, p=0.5, generator=none; %4)
backward
  %11: f32[4] = aten::mul.Tensor(%9, %7)
outputs
  %11 gradient 0
)");
  EXPECT_EQ(to_text(parse_graph(to_text(partition.backward))), to_text(partition.backward));
}

TEST(Split, OnlyStatesOfDrawsThatRunAgainAreSaved) {
  const Graph joint = graph_of(kDraws);
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  saved[7] = false;
  const Partition partition = split_at(joint, saved);
  verify_both(partition);
  EXPECT_EQ(saved_text(partition), "%5 intermediate, %4 generator state");
}

/// The second output of a node is not saved, so the node is recomputed. The first one is saved, and
/// its views are views of the saved value.
TEST(Split, AViewIsOfTheSavedValueAndNotOfTheCopyThatIsMadeBesides) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4], %2: f32[4] = aten::frexp.Tensor(%0)
  %3: f32[4] &1 = aten::detach.default(%1)
  %4: f32[4] = aten::add.Tensor(%1, %2, scalar(1))
backward
  %5: f32[4] = aten::addcmul.default(%9, %2, %3, scalar(1))
outputs
  %4 result
  %5 gradient 0
)");
  const Partition partition = split_at(joint, saving(joint, {0, 1}));
  verify_both(partition);
  EXPECT_EQ(node_list(partition.backward),
            "%10: f32[4], %2: f32[4] = aten::frexp.Tensor(%0)\n"
            "%3: f32[4] &1 = aten::detach.default(%1)\n"
            "%5: f32[4] = aten::addcmul.default(%9, %2, %3, scalar(1))\n");
}

/// Two nodes of the backward read a value, directly or through the view %2. It is dropped between
/// them.
Partition forgotten_between(const std::string& first, const std::string& second) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
  %1: f32[4] = aten::cos.default(%0)
  %2: f32[4] &1 = aten::detach.default(%1)
  %3: f32[4] = aten::relu.default(%1)
backward
  %4: f32[4] = aten::mul.Tensor(%9, )" +
                               first + R"()  # 7
  %5: f32[4] = aten::mul.Tensor(%4, )" +
                               second + R"()
outputs
  %3 result
  %5 gradient 0
)");
  Schedule schedule;
  schedule.planned = true;
  schedule.forget = {{7, ValueId(1)}};
  Partition partition = split_at(joint, saving(joint, {0}), schedule);
  verify_both(partition);
  return partition;
}

TEST(Split, WhatIsForgottenIsComputedOnceMoreWithItsViews) {
  EXPECT_EQ(node_list(forgotten_between("%2", "%2").backward),
            "%1: f32[4] = aten::cos.default(%0)\n"
            "%2: f32[4] &1 = aten::detach.default(%1)\n"
            "%4: f32[4] = aten::mul.Tensor(%9, %2)\n"
            "%10: f32[4] = aten::cos.default(%0)\n"
            "%11: f32[4] &10 = aten::detach.default(%10)\n"
            "%5: f32[4] = aten::mul.Tensor(%4, %11)\n");
}

TEST(Split, AViewThatIsMadeLateIsOfTheBaseThatWasComputedOnceMore) {
  EXPECT_EQ(node_list(forgotten_between("%1", "%2").backward),
            "%1: f32[4] = aten::cos.default(%0)\n"
            "%4: f32[4] = aten::mul.Tensor(%9, %1)\n"
            "%10: f32[4] = aten::cos.default(%0)\n"
            "%11: f32[4] &10 = aten::detach.default(%10)\n"
            "%5: f32[4] = aten::mul.Tensor(%4, %11)\n");
}

TEST(Split, EffectsNeverRunAgain) {
  const Graph joint = graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %1: token effect
  %9: f32[4] tangent 0
nodes
  %2: f32[4], %3: token = mine::log.default(%0; %1)
backward
  %4: f32[4] = aten::mul.Tensor(%9, %2)
outputs
  %2 result grad
  %3 effect
  %4 gradient 0
)");
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  saved[2] = false;
  expect_error<GraphError>([&] { split_at(joint, saved); }, "what effects give to be saved");
}

TEST(Split, RefusesAResultThatDependsOnATangent) {
  expect_error<GraphError>(
      [] {
        default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %9: f32[4] tangent 0
nodes
backward
  %1: f32[4] = aten::neg.default(%9)
outputs
  %1 result
  none gradient 0
)"));
      },
      "depends on the tangent %9");
}

}  // namespace split_test
}  // namespace antegrad::testing
