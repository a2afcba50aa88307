// Passes that fail at any moment: in a hook, in a custom function, for want of memory. Whoever
// tries again with libtorch's engine gets right gradients, or the error that libtorch would give.

#include <antegrad/antegrad.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "scenario.h"
#include "support/failing_memory.h"

namespace antegrad::testing {
namespace backward_failures_test {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Counts moments at which a pass can fail, and fails at one of them.
struct Moments {
  int64_t left = -1;  // before the one that fails; -1: none does
  bool failed = false;
  void pass() {
    if (left >= 0 && left-- == 0) {
      failed = true;
      throw std::runtime_error("as the test asked");
    }
  }
};
Moments moments;

struct Sine : torch::autograd::Function<Sine> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.sin();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    moments.pass();
    const auto x = context->get_saved_variables()[0];
    return {gradients[0] * x.cos()};
  }
};

List leaves() {
  at::manual_seed(0);
  List made;
  for (int i = 0; i < 4; ++i) made.push_back(leaf({12, 12}));
  return made;
}

/// Formulas, a custom function, hooks of each kind.
at::Tensor loss_of(const List& p) {
  auto h = at::gelu(p[0].mm(p[1]));
  h.register_hook([](const at::Tensor& g) {
    moments.pass();
    return g * 2;
  });
  h = Sine::apply(h) + p[2].exp();
  h = at::layer_norm(h.mm(p[3]), {12});
  h.register_hook([](const at::Tensor&) { moments.pass(); });
  return h.square().mean() * 3.0;
}

/// Counts as a moment before each node, and `behind` each.
struct Before final : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& gradients) override {
    moments.pass();
    return gradients;
  }
};
struct Behind final : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& made, const variable_list& /*arrived*/) override {
    moments.pass();
    return made;
  }
};

/// loss_of() with hooks on every node of the graph. Returns how many nodes there are.
int64_t add_hooks_everywhere(const at::Tensor& loss, bool behind) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    node->add_pre_hook(std::make_unique<Before>());
    if (behind) node->add_post_hook(std::make_unique<Behind>());
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid()) open.push_back(edge.function.get());
    }
  }
  return static_cast<int64_t>(seen.size());
}

List take_gradients(const List& leaves) {
  List found;
  for (const auto& leaf : leaves) {
    found.push_back(leaf.grad());
    leaf.mutable_grad() = at::Tensor();
  }
  return found;
}

/// A pass of a fresh graph in the scope that may fail, and then one of libtorch's on the same
/// graph. Returns whether the first one failed.
bool expect_usable(const List& leaves, const List& expected, bool keep,
                   const std::function<void()>& arm, const std::function<bool()>& disarm) {
  const auto loss = loss_of(leaves);
  std::string error;
  arm();
  try {
    loss.backward({}, keep);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  const bool failed = disarm();
  const auto first = take_gradients(leaves);
  if (error.empty()) {
    EXPECT_TRUE(same_bits(first, expected));
    if (!keep) return failed;
  }
  const EagerBackward eager;
  try {
    loss.backward({}, keep);
    EXPECT_TRUE(same_bits(take_gradients(leaves), expected)) << error;
  } catch (const c10::Error& refused) {
    EXPECT_FALSE(keep) << refused.what_without_backtrace() << ", after " << error;
    EXPECT_NE(std::string(refused.what()).find("second time"), std::string::npos)
        << refused.what_without_backtrace();
    take_gradients(leaves);
  }
  return failed;
}

/// What a pass leaves that fails at this moment: gradients, with `there` before it.
List gradients_after(const List& leaves, bool there, bool behind, int64_t moment) {
  if (there) {
    for (const auto& leaf : leaves) leaf.mutable_grad() = at::ones_like(leaf);
  }
  const auto loss = loss_of(leaves);
  add_hooks_everywhere(loss, behind);
  moments = {moment};
  EXPECT_THROW(loss.backward(), std::runtime_error) << moment;
  moments = {};
  return take_gradients(leaves);
}

// Also with sums of gradients that are there.
TEST(FailingPasses, LeaveWhatTheEngineLeavesAtEveryNodeAndHook) {
  const auto p = leaves();
  for (const bool behind : {false, true}) {
    const auto loss = loss_of(p);
    const auto nodes = add_hooks_everywhere(loss, behind);
    constexpr int64_t kOwnMoments = 3;
    const auto count = nodes * (behind ? 2 : 1) + kOwnMoments;
    for (const bool there : {false, true}) {
      CompiledBackward scope(exact_backward());
      for (int64_t moment = 0; moment < count; ++moment) {
        SCOPED_TRACE(c10::str("behind ", behind, ", gradients ", there, ", moment ", moment));
        const auto expected = [&] {
          const EagerBackward eager;
          return gradients_after(p, there, behind, moment);
        }();
        const auto found = gradients_after(p, there, behind, moment);
        for (size_t i = 0; i < p.size(); ++i) {
          EXPECT_TRUE(same_numbers(found[i], expected[i])) << i;
        }
      }
    }
  }
}

class FailingPass : public ::testing::TestWithParam<bool> {};

TEST_P(FailingPass, ByAHookOrACustomFunctionLeavesTheGraphUsable) {
  const auto p = leaves();
  loss_of(p).backward();
  const auto expected = take_gradients(p);
  CompiledBackward scope(exact_backward());
  for (const bool warm : {false, true}) {
    int64_t at = 0;
    for (;; ++at) {
      SCOPED_TRACE(c10::str("moment ", at, ", warm ", warm));
      if (!warm) scope.reset();
      const bool failed = expect_usable(
          p, expected, GetParam(), [&] { moments = {at}; },
          [&] {
            moments.left = -1;
            return moments.failed;
          });
      if (!failed) break;
    }
    EXPECT_EQ(at, 3);
  }
}

TEST_P(FailingPass, ForWantOfMemoryLeavesTheGraphUsable) {
  const FailingMemory memory;
  const auto p = leaves();
  loss_of(p).backward();
  const auto expected = take_gradients(p);
  // Kernels that are compared while there is no memory are not used any more in this process.
  CompiledBackward scope(
      exact_backward().with_lowering(Lowering::off).with_kept_memory(KeptMemory::free));
  for (const bool warm : {false, true}) {
    int64_t at = 0;
    for (;; ++at) {
      SCOPED_TRACE(c10::str("request ", at, ", warm ", warm));
      if (!warm) scope.reset();
      const bool failed = expect_usable(
          p, expected, GetParam(), [&] { FailingMemory::fail_after(at); },
          [] {
            FailingMemory::fail_after(-1);
            return FailingMemory::has_failed();
          });
      if (!failed) break;
    }
    EXPECT_GT(at, 10) << "the pass asks for memory";
  }
}

INSTANTIATE_TEST_SUITE_P(All, FailingPass, ::testing::Bool(), [](const auto& info) {
  return info.param ? "WithAGraphThatIsKept" : "WithAGraphThatIsFreed";
});

}  // namespace backward_failures_test
}  // namespace antegrad::testing
