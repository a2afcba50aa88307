#include "graph/call_plan.h"

#include <string>

#include <gtest/gtest.h>

#include <antegrad/error.h>

#include "graphs.h"
#include "partition/default_partition.h"
#include "partition/hooks/hooks.h"
#include "partitions.h"

namespace antegrad::testing {
namespace call_plan_test {

using Form = SavedSlot::Form;

// A parameter that is read, an argument that is written, a result, and a base of a view that is a
// result.
const char* const kStep = R"(inputs
  %0: f32[4, 4] primal argument 0 grad
  %1: f32[4, 4] primal parameter "w" grad
  %2: f32[4, 4] primal argument 1 mutates_data
  %20: f32[4, 4] tangent 0
nodes
  %3: f32[4, 4] = aten::exp.default(%0)
  %4: f32[4, 4] = aten::mul.Tensor(%3, %1)
  %5: f32[4, 4] = aten::mul.Tensor(%4, %2)
  %6: f32[4, 4] = aten::sin.default(%2)
backward
  %7: f32[4, 4] = aten::mul.Tensor(%20, %2)
  %8: f32[4, 4] = aten::mul.Tensor(%7, %1)
  %9: f32[4, 4] = aten::mul.Tensor(%8, %3)
  %10: f32[4, 4] = aten::mul.Tensor(%7, %3)
outputs
  %5 result grad
  %6 mutated 2
  %9 gradient 0
  %10 gradient 1
)";

const SavedSlot& slot(const CallPlan& plan, ValueId value) {
  return plan.saved.at(static_cast<size_t>(plan.slot_of(value)));
}

TEST(CallPlan, SaysWhoOwnsWhatIsSavedAndInWhichForm) {
  const Partition partition = default_partition(graph_of(kStep));
  const CallPlan& plan = partition.plan;
  verify_both(partition);
  EXPECT_EQ(plan.primals, 3);
  EXPECT_EQ(plan.results, 1);
  EXPECT_EQ(plan.gradients, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(plan.tangents, std::vector<int32_t>{0});
  ASSERT_EQ(plan.mutations.size(), 1u);
  EXPECT_EQ(plan.mutations[0].primal, 2);
  EXPECT_TRUE(plan.mutations[0].data);
  EXPECT_EQ(slot(plan, 1).owner, Owner::held);
  EXPECT_EQ(slot(plan, 1).form, Form::input);
  EXPECT_FALSE(slot(plan, 1).donated());
  // Read after the call writes it: saved as a copy, which the backward may overwrite.
  EXPECT_EQ(slot(plan, 2).owner, Owner::argument);
  EXPECT_EQ(slot(plan, 2).form, Form::input_copy);
  EXPECT_TRUE(slot(plan, 2).donated());
  EXPECT_EQ(slot(plan, 3).owner, Owner::program);
  EXPECT_EQ(slot(plan, 3).form, Form::raw);
  EXPECT_EQ(plan.donated(), (std::vector<ValueId>{2, 3}));
  EXPECT_EQ(plan.slot_of(0), -1);
}

TEST(CallPlan, AResultIsKeptAsTheTensorThatIsHandedOut) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %20: f32[4] tangent 0
nodes
  %1: f32[4] = aten::exp.default(%0)
backward
  %2: f32[4] = aten::mul.Tensor(%20, %1)
outputs
  %1 result grad
  %2 gradient 0
)"));
  verify_both(partition);
  const SavedSlot& result = partition.plan.saved.at(0);
  EXPECT_EQ(result.owner, Owner::result);
  EXPECT_EQ(result.form, Form::handed_out);
  EXPECT_TRUE(result.has_our_history);
  EXPECT_TRUE(result.held_by_caller());
  EXPECT_FALSE(result.donated());
}

TEST(CallPlan, TheNewValueOfAnInputIsKeptAsThatInput) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 grad
  %1: f32[4] primal argument 1 mutates_data
  %20: f32[4] tangent 0
nodes
  %2: f32[4] = aten::exp.default(%1)
  %3: f32[4] = aten::mul.Tensor(%0, %2)
backward
  %4: f32[4] = aten::mul.Tensor(%20, %2)
outputs
  %3 result grad
  %2 mutated 1
  %4 gradient 0
)"));
  verify_both(partition);
  const SavedSlot& written = partition.plan.saved.at(0);
  EXPECT_EQ(written.owner, Owner::written);
  EXPECT_EQ(written.form, Form::written_input);
  EXPECT_EQ(written.index, 1);
}

TEST(CallPlan, SaysWhichStoragesAreResized) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4] primal argument 0 frees_storage
  %1: f32[4] primal argument 1 mutates_data allocates_storage 20
  %2: f32[4] primal argument 2 empty_storage
nodes
  %3: f32[4] = aten::exp.default(%0)
outputs
  %3 mutated 1
)"));
  verify_both(partition);
  const CallPlan& plan = partition.plan;
  EXPECT_EQ(plan.resizes, (std::vector<CallPlan::Resize>{{0, 0}, {1, 20}}));
  EXPECT_EQ(parse_call_plan(to_text(plan)), plan) << to_text(plan);
  EXPECT_NE(to_text(plan).find("resize primal=1 bytes=20"), std::string::npos) << to_text(plan);
  CallPlan other = plan;
  other.resizes[1].bytes = 16;
  EXPECT_THROW(verify(other, partition.forward, partition.backward), InternalError);
  other.resizes.pop_back();
  EXPECT_THROW(verify(other, partition.forward, partition.backward), InternalError);
}

// The old mean is read no more once the norm has written it, the old variance is.
TEST(CallPlan, RunningStatisticsAreStagedUnlessTheyAreReadLater) {
  const Partition partition = default_partition(graph_of(R"(inputs
  %0: f32[4, 3] primal argument 0
  %1: f32[3] primal buffer "mean" mutates_data
  %2: f32[3] primal buffer "variance" mutates_data
nodes
  %3: f32[3] = aten::exp.default(%1)
  %4: f32[4, 3], %5: f32[3], %6: f32[3], %7: f32[3], %8: f32[3] = aten::native_batch_norm.default(%0, none, none, %1, %2, true, 0.1, 1e-05)
  %9: f32[3] = aten::exp.default(%2)
outputs
  %4 result
  %3 result
  %9 result
  %7 mutated 1
  %8 mutated 2
)"));
  verify_both(partition);
  EXPECT_TRUE(partition.plan.mutations.at(0).staged);
  EXPECT_FALSE(partition.plan.mutations.at(1).staged);
}

TEST(CallPlan, AResultOwnsBeforeTheInputThatIsWrittenAndAnInputBeforeBoth) {
  const auto owners = storage_owners(graph_of(R"(inputs
  %0: f32[4] primal argument 0
  %1: f32[4] primal buffer "b"
nodes
  %2: f32[2] &0 = aten::slice.Tensor(%0, 0, 0, 2, 1)
  %3: f32[4] = aten::exp.default(%1)
outputs
  %2 result view_of_input 0
  %3 result
  %3 mutated 1
)"));
  EXPECT_EQ(owners[0], Owner::argument);
  EXPECT_EQ(owners[1], Owner::held);
  EXPECT_EQ(owners[3], Owner::result);
}

TEST(CallPlan, ItsTextParsesBackAndErrorsSayWhere) {
  const CallPlan plan = default_partition(graph_of(kStep)).plan;
  const std::string text = to_text(plan);
  EXPECT_EQ(parse_call_plan(text), plan) << text;
  EXPECT_EQ(text.substr(0, text.find('\n')), "call_plan primals 3 results 1");
  expect_error<GraphError>(
      [] { parse_call_plan("call_plan primals 1 results 1\nnonsense 3\n", "x"); }, "in x, line 2");
  expect_error<GraphError>([] { parse_call_plan("call_plan primals 1\n"); }, "results");
  expect_error<GraphError>(
      [] { parse_call_plan("call_plan primals 1 results 1\nsaved value=1 owner=me\n"); }, "me");
}

// After each change, the plan does not fit the graphs.
TEST(CallPlan, TheVerifierNoticesWhatDoesNotFit) {
  const Partition partition = default_partition(graph_of(kStep));
  const auto refused = [&](auto change) {
    CallPlan plan = partition.plan;
    change(plan);
    try {
      verify(plan, partition.forward, partition.backward);
    } catch (const InternalError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused([](CallPlan&) {}));
  EXPECT_TRUE(refused([](CallPlan& plan) { ++plan.primals; }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.handed_out.clear(); }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.mutations[0].primal = 0; }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.tangents.push_back(0); }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.saved.pop_back(); }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.saved[0].value = plan.saved[1].value; }));
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.gradients.pop_back(); }));
  EXPECT_TRUE(
      refused([](CallPlan& plan) { plan.handed_out[0].alias.kind = OutputAlias::Kind::is_input; }));
  // The backward reads what the call wrote over.
  EXPECT_TRUE(refused([](CallPlan& plan) { plan.mutations[0].staged = true; }));
  // An input that the call writes, saved without a copy.
  EXPECT_TRUE(refused([](CallPlan& plan) {
    for (SavedSlot& saved : plan.saved) {
      if (saved.form == Form::input_copy) saved.form = Form::input;
    }
  }));
}

}  // namespace call_plan_test
}  // namespace antegrad::testing
