#include "partition/hooks/hooks.h"

#include <gtest/gtest.h>

#include "partition/default_partition.h"
#include "partitions.h"

namespace antegrad::testing {
namespace hooks_test {

// The backward reads the result of exp, and a slice of it.
const char* const kJoint = R"(inputs
  %0: f32[4, 4] primal argument 0 grad
  %9: f32[4, 4] tangent 0
nodes
  %1: f32[4, 4] = aten::exp.default(%0)
  %2: f32[4, 4] = aten::sin.default(%1)
  %3: f32[4, 4] = aten::neg.default(%2)
backward
  %4: f32[4, 4] = aten::mul.Tensor(%9, %9)
  %5: f32[4, 4] = aten::mul.Tensor(%4, %1)
  %6: f32[4, 4]{1, 4} &1 = aten::t.default(%1)
  %7: f32[4, 4] = aten::mul.Tensor(%5, %6)
outputs
  %3 result grad
  %7 gradient 0
)";

// A cast, and a scale that is returned with it.
const char* const kPack = R"(inputs
  %0: f32[4, 4] primal argument 0
nodes
  %1: f32[] = aten::amax.default(%0, dim=[], keepdim=false)
  %2: f32[4, 4] = aten::div.Tensor(%0, %1)
  %3: f16[4, 4] = aten::_to_copy.default(%2, dtype=f16, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none)
outputs
  %3 result
  %1 result
)";
const char* const kUnpack = R"(inputs
  %0: f16[4, 4] primal argument 0
  %1: f32[] primal argument 1
nodes
  %2: f32[4, 4] = aten::_to_copy.default(%0, dtype=f32, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none)
  %3: f32[4, 4] = aten::mul.Tensor(%2, %1)
outputs
  %3 result
)";

struct Halves {
  Graph joint = [] {
    Graph graph = graph_of(kJoint);
    number_nodes(graph);
    return graph;
  }();
  Partition partition = default_partition(joint);
  Hooked hooked{{}, 100};
};

TEST(Hooks, PackAfterTheLastUseAndUnpackBeforeTheFirst) {
  Halves halves;
  ASSERT_EQ(saved_text(halves.partition), "%1 intermediate");
  halves.hooked.tensors.push_back({1, graph_of(kPack), graph_of(kUnpack)});
  apply_hooks(halves.partition, halves.hooked);
  verify_both(halves.partition);
  EXPECT_EQ(node_list(halves.partition.forward),
            "%1: f32[4, 4] = aten::exp.default(%0)\n"
            "%2: f32[4, 4] = aten::sin.default(%1)\n"
            "%10: f32[] = aten::amax.default(%1, dim=[], keepdim=false)\n"
            "%11: f32[4, 4] = aten::div.Tensor(%1, %10)\n"
            "%12: f16[4, 4] = aten::_to_copy.default(%11, dtype=f16, layout=none, device=none, "
            "pin_memory=none, non_blocking=false, memory_format=none)\n"
            "%3: f32[4, 4] = aten::neg.default(%2)\n");
  EXPECT_EQ(node_list(halves.partition.backward),
            "%4: f32[4, 4] = aten::mul.Tensor(%9, %9)\n"
            "%13: f32[4, 4] = aten::_to_copy.default(%12, dtype=f32, layout=none, device=none, "
            "pin_memory=none, non_blocking=false, memory_format=none)\n"
            "%1: f32[4, 4] = aten::mul.Tensor(%13, %10)\n"
            "%5: f32[4, 4] = aten::mul.Tensor(%4, %1)\n"
            "%6: f32[4, 4]{1, 4} &1 = aten::t.default(%1)\n"
            "%7: f32[4, 4] = aten::mul.Tensor(%5, %6)\n");
  EXPECT_EQ(saved_text(halves.partition), "%12 intermediate, %10 intermediate");
  EXPECT_EQ(simulate(halves.partition).saved_bytes, 64 + 64);  // 32 and 4, each rounded up
}

// A tensor that pack returns unchanged stays the saved tensor. It is copied if the backward may
// overwrite it.
TEST(Hooks, ThatDoNothingSaveTheTensorItself) {
  Halves halves;
  const Graph same =
      graph_of("inputs\n  %0: f32[4, 4] primal argument 0\nnodes\noutputs\n  %0 result\n");
  halves.hooked.tensors.push_back({1, same, same});
  apply_hooks(halves.partition, halves.hooked);
  verify_both(halves.partition);
  EXPECT_EQ(saved_text(halves.partition), "%1 intermediate");
}

// Saving a view would keep its whole base, so a copy is saved. If unpack returns other strides, the
// result is copied to those that the backward was captured for.
TEST(Hooks, ViewsAndOtherStridesAreCopied) {
  Halves halves;
  const Graph transpose = graph_of(
      "inputs\n  %0: f32[4, 4] primal argument 0\nnodes\n  %1: f32[4, 4]{1, 4} &0 = "
      "aten::t.default(%0)\n"
      "outputs\n  %1 result\n");
  const Graph back = graph_of(
      "inputs\n  %0: f32[4, 4]{1, 4} primal argument 0\nnodes\n  %1: f32[4, 4] &0 = "
      "aten::t.default(%0)\n"
      "outputs\n  %1 result\n");
  halves.hooked.tensors.push_back({1, transpose, back});
  apply_hooks(halves.partition, halves.hooked);
  verify_both(halves.partition);
  EXPECT_NE(node_list(halves.partition.forward).find("antegrad::restride"), std::string::npos);
  EXPECT_NE(node_list(halves.partition.backward).find("antegrad::restride"), std::string::npos);
}

// In a backward that is captured later, the packed values have other ids than in the forward.
TEST(Hooks, LaterBackwardsSayWhichValuesTheyMean) {
  Halves halves;
  Graph later = halves.partition.backward;
  for (int i = 0; i < 3; ++i) later.add_tensor({DType::f32, {}, {4}, {1}});
  halves.hooked.tensors.push_back({1, graph_of(kPack), graph_of(kUnpack)});
  pack_saved(halves.partition.forward, halves.hooked);
  const auto forward_values = unpack_saved(later, halves.hooked);
  EXPECT_NO_THROW(verify(later));
  std::vector<ValueId> meant;
  for (const Input& input : later.inputs) {
    if (input.kind == InputKind::saved) meant.push_back(forward_values.at(input.value));
  }
  EXPECT_EQ(meant, halves.hooked.tensors[0].packed);
}

// The ids of the forward's packed values may reach those of a later backward or beyond. Each new
// input has an id of its own.
TEST(Hooks, NewInputsOfLaterBackwardsAreApart) {
  for (int more = 0; more < 6; ++more) {
    Halves halves;
    Graph later = halves.partition.backward;
    for (int i = 0; i < more; ++i) later.add_tensor({DType::f32, {}, {4}, {1}});
    halves.hooked.tensors.push_back({1, graph_of(kPack), graph_of(kUnpack)});
    pack_saved(halves.partition.forward, halves.hooked);
    const auto& packed = halves.hooked.tensors[0].packed;
    const auto forward_values = unpack_saved(later, halves.hooked);
    EXPECT_NO_THROW(verify(later)) << more;
    EXPECT_EQ(forward_values.size(), packed.size());
    const auto meant = in_backward(later, packed, forward_values);
    ASSERT_EQ(meant.size(), 2u);
    EXPECT_EQ(forward_values.at(meant[0]), packed[0]);
    EXPECT_EQ(forward_values.at(meant[1]), packed[1]);
  }
}

// The backward of some gradients may read fewer values than the forward saved.
TEST(Hooks, WhatABackwardDoesNotReadIsNoneOfItsValues) {
  Halves halves;
  halves.hooked.tensors.push_back({1, graph_of(kPack), graph_of(kUnpack)});
  pack_saved(halves.partition.forward, halves.hooked);
  Graph none = graph_of("inputs\n  %9: f32[4, 4] tangent 0\nnodes\noutputs\n  %9 gradient 0\n");
  const auto forward_values = unpack_saved(none, halves.hooked);
  EXPECT_TRUE(in_backward(none, halves.hooked.tensors[0].packed, forward_values).empty());
}

// Object numbers in the graphs of hooks are relative to the hooks' own list.
TEST(Hooks, ObjectsStandBehindThoseOfTheGraph) {
  Halves halves;
  const auto with_object = [](int number) {
    return graph_of(
        "inputs\n  %0: f32[4, 4] primal argument 0\nnodes\n  %1: f32[4, 4] = "
        "mine::cipher.default(%0, opaque(" +
        std::to_string(number) + "))\noutputs\n  %1 result\n");
  };
  halves.partition.forward.opaque_names = {"own"};
  halves.partition.backward.opaque_names = {"own", "another"};
  halves.hooked.object_names = {"lock", "key"};
  halves.hooked.tensors.push_back({1, with_object(0), with_object(1)});
  apply_hooks(halves.partition, halves.hooked);
  verify_both(halves.partition);
  using Names = std::vector<std::string>;
  EXPECT_EQ(halves.partition.forward.opaque_names, (Names{"own", "lock", "key"}));
  EXPECT_EQ(halves.partition.backward.opaque_names, (Names{"own", "another", "lock", "key"}));
  EXPECT_NE(node_list(halves.partition.forward).find("(%1, opaque(1))"), std::string::npos);
  EXPECT_NE(node_list(halves.partition.backward).find("(%10, opaque(3))"), std::string::npos);
}

TEST(Hooks, StandForTensorsThatFillTheirMemory) {
  const Graph graph = graph_of(R"(inputs
  %0: f32[4, 4] primal argument 0
  %1: f32[4, 4]{8, 2} primal argument 1
  %2: f32[4, 4]+4 primal argument 2
nodes
  %3: f32[4, 4]{1, 4} &0 = aten::t.default(%0)
outputs
  %3 result
)");
  EXPECT_TRUE(can_be_hooked(graph, 0));
  EXPECT_FALSE(can_be_hooked(graph, 1));
  EXPECT_FALSE(can_be_hooked(graph, 2));
  EXPECT_FALSE(can_be_hooked(graph, 3));
}

}  // namespace hooks_test
}  // namespace antegrad::testing
