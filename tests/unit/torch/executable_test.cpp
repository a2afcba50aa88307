// Partitioned graphs behind autograd.

#include "runtime/executable.h"

#include <ATen/ATen.h>
#include <antegrad/error.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "partition/default_partition.h"
#include "support/bits.h"
#include "support/joint_graph.h"

namespace antegrad::testing {
namespace executable_test {

using runtime::AliasCheck;
using runtime::BackwardGraph;
using runtime::BackwardKey;
using runtime::BackwardPrograms;
using runtime::Executable;

const ops::AttrTables kNoTables;
constexpr int64_t kSize = 4;

// y = w * exp(x), and its gradients.
Graph joint(int64_t size = kSize) {
  const auto meta = dense({size});
  JointGraph b("joint");
  const auto x = b.primal(meta), w = b.primal(meta);
  const auto tangent = b.tangent(0, meta);
  const auto e = b.call("aten::exp.default", {x}, meta);
  b.result(b.call("aten::mul.Tensor", {w, e}, meta));
  b.begin_backward();
  const auto to_e = b.call("aten::mul.Tensor", {tangent, w}, meta);
  b.gradient(0, b.call("aten::mul.Tensor", {to_e, e}, meta));
  b.gradient(1, b.call("aten::mul.Tensor", {tangent, e}, meta));
  return b.finish();
}

std::shared_ptr<const Executable> executable(int64_t size = kSize,
                                             const Executable* like = nullptr) {
  const auto partition = default_partition(joint(size));
  runtime::ExecutableParts parts{"test", std::make_shared<const CallPlan>(partition.plan),
                                 partition.forward, kNoTables};
  const BackwardGraph backward{partition.backward, kNoTables, partition.forward_values};
  parts.backward = &partition.backward;
  parts.like = like;
  parts.source = [backward](const BackwardKey&) { return backward; };  // it writes nothing in place
  return std::make_shared<const Executable>(std::move(parts));
}

at::Tensor leaf() { return at::randn({kSize}).requires_grad_(); }

TEST(Executable, ForwardAndGradientsAreEagers) {
  const auto x = leaf(), w = leaf(), tangent = at::randn({kSize});
  const auto y = executable()->call({x, w}).at(0);
  EXPECT_TRUE(same_bits(y.detach(), (w * x.exp()).detach()));
  const auto gradients = torch::autograd::grad({y}, {x, w}, {tangent});
  EXPECT_TRUE(same_bits(gradients, torch::autograd::grad({w * x.exp()}, {x, w}, {tangent})));
}

TEST(Executable, SharesMemoryWithOneOfOtherSizes) {
  auto first = executable();
  const auto second = executable(kSize + 1, first.get());
  EXPECT_TRUE(second->shares_with(*first));
  EXPECT_FALSE(executable()->shares_with(*first));
  EXPECT_LT(second->bytes(), first->bytes());
  first.reset();
  const auto x = at::randn({kSize + 1}).requires_grad_(), w = at::randn({kSize + 1});
  const auto y = second->call({x, w}).at(0);
  EXPECT_TRUE(same_bits(y.detach(), (w * x.exp()).detach()));
  EXPECT_TRUE(same_bits(torch::autograd::grad({y.sum()}, {x}),
                        torch::autograd::grad({(w * x.exp()).sum()}, {x})));
}

TEST(Executable, ASavedArgumentThatIsWrittenIsEagersError) {
  const auto x = leaf(), w = leaf();
  const auto y = executable()->call({x, w}).at(0);
  {
    const at::NoGradGuard no_grad;
    w.mul_(2);
  }
  EXPECT_THROW(torch::autograd::grad({y}, {x, w}, {at::ones({kSize})}), c10::Error);
}

TEST(Executable, AGraphIsRetainedOnDemandOnly) {
  const auto x = leaf(), w = leaf();
  const auto y = executable()->call({x, w}).at(0);
  const auto tangent = at::ones({kSize});
  const auto first = torch::autograd::grad({y}, {x, w}, {tangent}, /*retain_graph=*/true);
  EXPECT_TRUE(same_bits(torch::autograd::grad({y}, {x, w}, {tangent}), first));
  EXPECT_THROW(torch::autograd::grad({y}, {x, w}, {tangent}), BackwardError);
}

TEST(BackwardPrograms, TheUsualOneIsThereAndOthersAreMadeOnce) {
  const auto partition = default_partition(joint());
  const BackwardGraph graph{partition.backward, kNoTables, partition.forward_values};
  int made = 0;
  const BackwardPrograms programs(
      partition.plan,
      runtime::backward_program(partition.plan, graph.graph, kNoTables, {}, AliasCheck::off),
      [&](const BackwardKey&) {
        ++made;
        return graph;
      },
      AliasCheck::off);
  const auto usual = runtime::usual_key(partition.plan);
  EXPECT_TRUE(programs.has(usual));
  EXPECT_EQ(programs.count(), 1U);
  auto other = usual;
  other.wanted[0] = false;
  EXPECT_FALSE(programs.has(other));
  const auto program = programs.get(other);
  EXPECT_EQ(programs.get(other), program);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(programs.count(), 2U);
}

TEST(BackwardPrograms, AnErrorOfTheSourceLeavesNothingBehind) {
  const auto partition = default_partition(joint());
  const BackwardPrograms programs(
      partition.plan, nullptr,
      [](const BackwardKey&) -> BackwardGraph {
        throw BackwardError(ErrorText{"a backward", "none", ""});
      },
      AliasCheck::off);
  const auto usual = runtime::usual_key(partition.plan);
  EXPECT_FALSE(programs.has(usual));
  EXPECT_THROW(programs.get(usual), BackwardError);
  EXPECT_EQ(programs.count(), 0U);
}

}  // namespace executable_test
}  // namespace antegrad::testing
