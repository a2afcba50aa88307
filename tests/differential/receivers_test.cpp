// Which tensors receive gradients, and along which paths.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <functional>

#include "support/parity.h"

namespace antegrad::testing {
namespace receivers_test {

using List = std::vector<at::Tensor>;

// ---- The gradient of an argument that is a view and was written inside. In eager, results
// computed from it lead through it, from a compiled region past it.

// A leaf, something computed from it, and a view of that.
struct Chain {
  at::Tensor leaf = at::arange(12).to(at::kFloat).view({4, 3}).set_requires_grad(true);
  at::Tensor base = leaf * 2;
  at::Tensor view = base.select(0, 1);
};

at::Tensor gradient_of(const at::Tensor& of, const List& roots) {
  List sums;
  for (const auto& root : roots) sums.push_back(root.sum());
  return torch::autograd::grad(sums, {of}).at(0);
}

at::Tensor from_the_view(const at::Tensor& view) {
  view.mul_(3);
  return view * view;
}

using Ask = std::function<at::Tensor(const Chain& chain, const at::Tensor& result)>;

// Queries on eager code and on a compiled region.
template <class Fn>
std::pair<at::Tensor, at::Tensor> ask_both(Fn fn, const Ask& ask) {
  const Chain eager, compiled;
  auto step = antegrad::compile(fn);
  const auto expected = ask(eager, fn(eager.view));
  const auto found = ask(compiled, step(compiled.view));
  EXPECT_EQ(step.report().eager_calls, 0);
  return {expected, found};
}

TEST(WrittenView, ItsGradientIsRefusedWhereResultsLedThroughIt) {
  const Ask questions[] = {
      [](const Chain& c, const at::Tensor& result) {
        c.view.retain_grad();
        result.sum().backward();
        return c.view.grad();
      },
      [](const Chain& c, const at::Tensor& result) {
        return gradient_of(c.view, {result, c.view * 2});
      },
      [](const Chain& c, const at::Tensor& result) {
        return gradient_of(c.view, {c.view * 2, result});
      },
      [](const Chain& c, const at::Tensor& result) {
        return torch::autograd::grad({result.sum(), c.view.sum()}, {c.leaf, c.view}).at(1);
      },
      [](const Chain& c, const at::Tensor& result) {
        at::Tensor seen;
        c.view.register_hook([&](const at::Tensor& arrived) { seen = arrived; });
        result.sum().backward();
        return seen;
      },
  };
  for (const auto& ask : questions) EXPECT_THROW(ask_both(from_the_view, ask), BackwardError);
}

TEST(WrittenView, OtherGradientsAreAsInEager) {
  const Ask questions[] = {
      [](const Chain& c, const at::Tensor& result) { return gradient_of(c.leaf, {result}); },
      [](const Chain& c, const at::Tensor& result) {
        return gradient_of(c.leaf, {result, c.view * 2});
      },
      [](const Chain& c, const at::Tensor&) { return gradient_of(c.leaf, {c.view * 2}); },
      [](const Chain& c, const at::Tensor& result) {
        c.view.mul_(2);  // from here on, the view is another one
        return gradient_of(c.view, {result, c.view * 2});
      },
      [](const Chain& c, const at::Tensor& result) {
        c.base.mul_(2);
        return gradient_of(c.view, {result, c.view * 2});
      },
  };
  for (const auto& ask : questions) {
    const auto [expected, found] = ask_both(from_the_view, ask);
    EXPECT_TRUE(same_bits(expected, found));
  }
}

TEST(WrittenView, ItsGradientIsThatOfEagerWhereNoResultLedThroughIt) {
  const auto from_before = [](const at::Tensor& view) {
    const auto result = view.sin();
    view.mul_(3);
    return result;
  };
  const auto [expected, found] =
      ask_both(from_before, [](const Chain& c, const at::Tensor& result) {
        return gradient_of(c.view, {result, c.view * 2});
      });
  EXPECT_TRUE(same_bits(expected, found));
}

// ---- What a region computes from but returns nothing of.

TEST(Receivers, AreThoseThatResultsLeadTo) {
  const auto calls_of_hook = [](bool compile) {
    const auto used = at::ones({3}).set_requires_grad(true);
    const auto unused = at::ones({3}).set_requires_grad(true);
    const auto fn = [&](const at::Tensor& x) {
      const auto dropped = unused * 2;
      return x * used;
    };
    auto step = antegrad::compile(fn);
    int calls = 0;
    unused.register_hook([&](const at::Tensor&) { ++calls; });
    const auto x = at::ones({3});
    const auto result = compile ? step(x) : fn(x);
    EXPECT_THROW(torch::autograd::grad({result.sum()}, {unused}, {}, /*retain_graph=*/true),
                 c10::Error);
    result.sum().backward();
    EXPECT_FALSE(unused.grad().defined());
    EXPECT_TRUE(used.grad().defined());
    return calls;
  };
  EXPECT_EQ(calls_of_hook(false), 0);
  EXPECT_EQ(calls_of_hook(true), 0);
}

}  // namespace receivers_test
}  // namespace antegrad::testing
