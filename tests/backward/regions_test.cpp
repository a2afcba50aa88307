// Regions of ag::compile in compiled backward passes: they become part of the programs.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "backward/scenario.h"
#include "support/folder.h"

namespace antegrad::testing {
namespace {

Options options(Lowering lowering = Lowering::exact) {
  return Options().with_verify_graphs(true).with_lowering(lowering).with_keep_slow_kernels(true);
}

int64_t count(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [name, number] : counts) sum += number;
  return sum;
}

TEST(CompiledBackwardRegions, ArePartOfTheProgramsOfAPass) {
  for (const auto lowering : {Lowering::off, Lowering::exact}) {
    auto region = compile([](const at::Tensor& x, const at::Tensor& w) { return x.mm(w).tanh(); },
                          options(lowering).with_name("layer"));
    const auto report = expect_as_libtorch([&](Notes& notes) {
      const auto w = leaf({8, 8}), x = leaf({4, 8});
      const auto inner = region(x.sin(), w);
      region(inner.exp(), w).square().sum().backward();
      notes.add_gradients({w, x});
    });
    EXPECT_EQ(region.report().eager_calls, 0);
    // Twice a pass, with the eager parts between: one program.
    EXPECT_EQ(report.regions.at("AntegradBackward:layer"), 2 * report.passes) << report;
    EXPECT_EQ(report.captures, 1) << report;
    EXPECT_EQ(report.own_nodes.size(), 1U) << report;  // accumulators of leaves
  }
}

// Dumps say which node of the autograd graph, or which region, each node of a program comes from.
TEST(CompiledBackwardRegions, HaveNamesInDumps) {
  const TemporaryFolder folder;
  auto layer = compile([](const at::Tensor& x) { return x.tanh(); }, options().with_name("layer"));
  auto loss =
      compile([](const at::Tensor& x) { return x.square().sum(); }, options().with_name("loss"));
  const auto x = leaf({4, 8});
  const CompiledBackward scope(exact_backward().with_dump_dir(folder.path()));
  loss(layer(layer(x).exp())).backward();
  std::ifstream file(folder / "origins.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    names.push_back(line.substr(line.find(": ") + 2));
  EXPECT_EQ(names,
            (std::vector<std::string>{"aot0_loss", "aot1_layer", "2 ExpBackward0", "aot1_1_layer"}))
      << text;
  EXPECT_TRUE(text.starts_with("0 to ")) << text;
  EXPECT_TRUE(std::filesystem::exists(folder / "00-capture.agraph"));
}

// A gradient that flows from one region to the next is nobody's: one kernel computes both.
TEST(CompiledBackwardRegions, ShareKernels) {
  auto first = compile([](const at::Tensor& x) { return x.sin(); }, options());
  auto second = compile([](const at::Tensor& x) { return x.tanh(); }, options());
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto x = leaf({16, 40});
    second(first(x)).backward(at::ones({16, 40}));
    notes.add_gradients({x});
  });
  ASSERT_EQ(report.programs.size(), 1U);
  EXPECT_EQ(report.programs[0].generated_kernels.size(), 1U);
}

TEST(CompiledBackwardRegions, WithHooksBetweenThem) {
  auto region = compile([](const at::Tensor& x) { return x.exp() * x; }, options());
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto x = leaf({5, 6});
    const auto h = region(x);
    h.register_hook([&](const at::Tensor& g) {
      notes.add("hook", g);
      return g * 2;
    });
    region(h).sum().backward();
    notes.add_gradients({x});
  });
  EXPECT_EQ(count(report.regions), 2 * report.passes) << report;
}

TEST(CompiledBackwardRegions, RetainedAndPartial) {
  auto region = compile(
      [](const List& xs) -> List {
        return {xs[0] * xs[1], (xs[1].sin() * xs[2]).exp()};
      },
      options());
  expect_as_libtorch([&](Notes& notes) {
    const auto a = leaf({3, 4}), b = leaf({3, 4}), c = leaf({3, 4});
    const auto ys = region(List{a, b, c});
    const auto loss = (ys[0] + ys[1]).sum();
    const auto some = torch::autograd::grad({loss}, {b}, {}, /*retain_graph=*/true)[0];
    notes.add("of one input", some);
    loss.backward();
    notes.add_gradients({a, b, c});
  });
}

// The form of such a pass is captured from the callable when it first comes.
TEST(CompiledBackwardRegions, FromOneOfTwoResults) {
  const auto report = expect_as_libtorch([](Notes& notes) {
    auto region = compile(
        [](const List& xs) -> List {
          return {xs[0] * xs[1], (xs[1].sin() * xs[0]).exp()};
        },
        options());
    for (int i = 0; i < 2; ++i) {
      const auto a = leaf({3, 4}), b = leaf({3, 4});
      const auto ys = region(List{a, b});
      ys[1].sum().backward();
      notes.add_gradients({a, b});
    }
  });
  EXPECT_EQ(count(report.regions), report.passes) << report;
}

TEST(CompiledBackwardRegions, ThatCannotBeCapturedAgainRunThemselves) {
  bool other = false;
  auto region = compile([&](const at::Tensor& x) { return other ? x.sin() : x.exp(); },
                        options().with_audit(Audit::off));
  const CompiledBackward scope(exact_backward());
  const auto x = leaf({4});
  const auto y = region(x);
  other = true;
  EXPECT_THROW(y.sum().backward(), BackwardError);
  y.backward(at::ones({4}));  // a form that is known
  EXPECT_TRUE(same_bits(x.grad(), x.detach().exp()));
}

TEST(CompiledBackwardRegions, ThatSaveInEachPartition) {
  for (const auto partition : {Partitioner::as_written, Partitioner::min_cut}) {
    auto region =
        compile([](const at::Tensor& x,
                   const at::Tensor& w) { return at::gelu(x.mm(w)).softmax(-1).cos().mm(w); },
                options().with_partition(partition));
    const auto report = expect_as_libtorch([&](Notes& notes) {
      const auto w = leaf({8, 8}), x = leaf({4, 8});
      region(x.sin(), w).square().mean().backward();
      notes.add_gradients({w, x});
    });
    EXPECT_EQ(count(report.regions), report.passes) << report;
  }
}

TEST(CompiledBackwardRegions, WithABudgetRunThemselves) {
  auto region = compile(
      [](const at::Tensor& x) {
        auto h = x;
        for (int i = 0; i < 8; ++i) h = (h.sin() * h).exp().tanh();
        return h;
      },
      options().with_memory_share(0.3));
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto x = leaf({64, 64});
    region(x * 2).sum().backward();
    notes.add_gradients({x});
  });
  EXPECT_EQ(count(report.regions), 0) << report;
  EXPECT_EQ(report.own_nodes.size(), 2U) << report;
}

TEST(CompiledBackwardRegions, DropoutKeepsItsMask) {
  auto region =
      compile([](const at::Tensor& x) { return at::dropout(x.tanh(), 0.4, true); }, options());
  const auto report = expect_as_libtorch([&](Notes& notes) {
    const auto x = leaf({16, 16});
    region(region(x).sin()).sum().backward();
    notes.add_gradients({x});
  });
  EXPECT_EQ(count(report.regions), 2 * report.passes) << report;
}

TEST(CompiledBackwardRegions, AChangedOrFreedSavedTensorIsFoundBeforeAnythingRuns) {
  auto region = compile([](const at::Tensor& x) { return x.exp(); }, options());
  const CompiledBackward scope(exact_backward());
  const auto x = leaf({4});
  int hooks = 0;
  {
    const auto y = region(x);
    const auto z = y * 2;
    z.register_hook([&](const at::Tensor& /*g*/) { ++hooks; });
    {
      const at::NoGradGuard no_grad;
      y.add_(1);
    }
    EXPECT_THROW(z.sum().backward(), std::exception);
  }
  {
    const auto y = region(x);
    y.sum().backward();
    const auto z = y * 2;
    EXPECT_THROW(z.sum().backward(), BackwardError);
  }
  EXPECT_EQ(hooks, 0);
}

// The programs of a region know where in its memory a tensor lies.
TEST(CompiledBackwardRegions, ThatSavedAPartOfALargerMemory) {
  expect_as_libtorch([](Notes& notes) {
    auto step = compile([](const at::Tensor& part, const at::Tensor& x, const at::Tensor& y) {
      part.mul_(-1);
      return at::addcmul(x, part, y.to(part.scalar_type()), 0.5);
    });
    for (int row = 0; row < 3; ++row) {
      const auto rows = at::randn({3, 3}, at::kDouble);
      const auto x = at::randn({1, 3}), y = leaf({1, 3});
      step(rows.narrow(0, row, 1), x, y).sum().backward();
      notes.add_gradients({y});
    }
    EXPECT_EQ(step.report().eager_calls, 0);
  });
}

TEST(CompiledBackwardRegions, AreFreedWithTheirGraph) {
  auto region = compile([](const at::Tensor& x) { return (x * x).exp(); }, options());
  const CompiledBackward scope(exact_backward());
  for (int i = 0; i < 3; ++i) {
    auto x = leaf({4});
    const c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl> alive(
        x.getIntrusivePtr());
    region(x).sum().backward();
    x = at::Tensor();
    EXPECT_TRUE(alive.expired()) << i;
  }
  EXPECT_EQ(scope.report().captures, 1);
}

}  // namespace
}  // namespace antegrad::testing
