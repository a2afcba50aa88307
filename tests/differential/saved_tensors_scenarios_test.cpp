// Hooks on saved tensors in programs that write, alias, and save by autograd functions of their
// own.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/bits.h"
#include "support/exact_hooks.h"
#include "support/folder.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace saved_tensors_scenarios_test {

using List = std::vector<at::Tensor>;
using Fn = std::function<List(const List&)>;
using torch::autograd::AutogradContext;
using torch::autograd::Function;

constexpr HookFilter kFilters[] = {HookFilter::donated, HookFilter::no_static, HookFilter::all};

Options options(HookFilter filter = HookFilter::donated) {
  return Options().with_verify_graphs(true).with_saved_tensors_hooks_filtering_mode(filter);
}

// Results, gradients, and the arguments afterwards. Tangents are integers: outside of a region,
// libtorch adds tangents of results that share memory in another order than inside.
List outcome(const Fn& fn, const List& arguments) {
  torch::manual_seed(5);
  const auto inputs = clone_all(arguments);
  const auto results = fn(inputs);
  List all, roots, tangents, leaves;
  for (const auto& r : results) {
    all.push_back(r.detach().clone());
    if (!r.requires_grad() || !r.grad_fn()) continue;
    roots.push_back(r);
    tangents.push_back(at::randint(-8, 8, r.sizes(), r.options().requires_grad(false)));
  }
  for (const auto& x : inputs) {
    if (x.requires_grad()) leaves.push_back(x);
  }
  for (const auto& g : torch::autograd::grad(roots, leaves, tangents, {}, false, true)) {
    all.push_back(g);
  }
  for (const auto& x : inputs) all.push_back(x.detach().clone());
  return all;
}

// Expects that under lossless hooks, inlined with each filter and eager, a call equals eager.
// `hooked`: the least number of saved tensors that hooks must replace under the filter "all".
void expect_as_eager(const Fn& fn, const List& arguments, size_t hooked) {
  const auto wanted = outcome(fn, arguments);
  for (const auto& hooks : exact_hooks()) {
    for (const auto filter : kFilters) {
      SCOPED_TRACE(hooks.pair()->options.name + " " + std::to_string(static_cast<int>(filter)));
      auto step = compile(fn, options(filter));
      const SavedTensorHooks scope(hooks);
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(
            same_bits(wanted, outcome([&](const List& in) { return step(in); }, arguments)));
      }
      const auto report = step.report();
      EXPECT_EQ(report.eager_calls, 0);
      ASSERT_EQ(report.programs.size(), 1u);
      if (filter == HookFilter::all && hooks.pair()->options.inlineable) {
        EXPECT_GE(report.programs[0].hooked.size(), hooked);
      }
    }
  }
}

// Expects that `run(compiled, hooks, filter)` gives the same bits compiled and eager.
template <class Run>
void expect_as_in_eager(const Run& run) {
  for (const auto& hooks : exact_hooks()) {
    for (const auto filter : kFilters) {
      EXPECT_TRUE(same_bits(run(false, hooks, filter), run(true, hooks, filter)))
          << hooks.pair()->options.name;
    }
  }
}

// ---- writes

TEST(HookScenarios, AnArgumentIsSavedBeforeAndAfterItIsWritten) {
  expect_as_eager(
      [](const List& in) -> List {
        auto b = in[1];
        const auto before = in[0] * b.clone();
        b.add_(1);
        const auto after = in[0] * b.clone();
        b.mul_(in[2]);
        return {before + after * b};
      },
      {leaf({3, 4}), at::randn({3, 4}), at::randn({3, 4})}, 3);
}

TEST(HookScenarios, AnIntermediateIsSavedAndThenWritten) {
  expect_as_eager(
      [](const List& in) -> List {
        auto z = in[0].exp();
        const auto kept = z.clone().sin();
        z = z + 1;
        z.mul_(in[0]);
        return {z.tanh() * kept};
      },
      {leaf({5})}, 3);
}

TEST(HookScenarios, BuffersMoveAsInEager) {
  const auto train = [](bool compiled, const Hooks* hooks, HookFilter filter) {
    torch::manual_seed(11);
    torch::nn::Sequential model(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6),
                                torch::nn::ReLU(), torch::nn::Dropout(0.3),
                                torch::nn::Linear(6, 2));
    const auto counter = model->register_buffer("counter", at::zeros({2}));
    auto body = [model, counter](const at::Tensor& x) mutable {
      counter.add_(1);
      return (model->forward(x) * counter).square().mean();
    };
    auto step = compile(model.ptr(), body, options(filter));
    List all;
    for (int i = 0; i < 3; ++i) {
      const auto x = at::randn({8, 4});
      const auto loss = [&] {
        if (!compiled) return body(x);
        const SavedTensorHooks scope(*hooks);
        return step(x);
      }();
      for (auto& p : model->parameters()) p.mutable_grad().reset();
      loss.backward();
      all.push_back(loss.detach());
      for (auto& p : model->parameters()) {
        all.push_back(p.grad());
        const at::NoGradGuard no_grad;
        p.sub_(p.grad(), 0.1);
      }
      for (const auto& b : model->buffers()) all.push_back(b.clone());
    }
    EXPECT_EQ(step.report().eager_calls, 0);
    return all;
  };
  const auto wanted = train(false, nullptr, HookFilter::all);
  for (const auto& hooks : exact_hooks()) {
    for (const auto filter : kFilters) {
      EXPECT_TRUE(same_bits(wanted, train(true, &hooks, filter))) << hooks.pair()->options.name;
    }
  }
}

// The backward reads a buffer as it was before the call wrote it.
TEST(HookScenarios, ABufferIsSavedBeforeItIsWritten) {
  const auto run = [](bool compiled, const Hooks& hooks, HookFilter filter) {
    torch::manual_seed(12);
    const auto buffer = at::randn({4});
    const auto body = [buffer](const at::Tensor& x) {
      const auto y = x * buffer.clone();
      buffer.copy_(y.detach() * 2);
      return (y * buffer).sum();
    };
    auto step = compile(body, options(filter));
    const auto x = leaf({4});
    const SavedTensorHooks scope(hooks);
    const auto loss = compiled ? step(x) : body(x);
    loss.backward();
    EXPECT_EQ(step.report().eager_calls, 0);
    return List{loss.detach(), x.grad(), buffer};
  };
  expect_as_in_eager(run);
}

// ---- aliases

TEST(HookScenarios, ResultsAliasArguments) {
  expect_as_eager(
      [](const List& in) -> List {
        return {in[0].view({-1}), (in[0] * in[1]).exp(), in[1].t(), in[0].detach()};
      },
      {leaf({3, 4}), leaf({3, 4})}, 3);
}

TEST(HookScenarios, ResultsAliasEachOther) {
  expect_as_eager(
      [](const List& in) -> List {
        const auto y = in[0].exp();
        return {y, y.t(), y.view({-1}), y.slice(0, 1)};
      },
      {leaf({3, 4})}, 1);
}

TEST(HookScenarios, ViewsAreSaved) {
  expect_as_eager(
      [](const List& in) -> List {
        const auto y = in[0].exp();
        const auto z = y.t().mm(in[1]);
        return {z.view({-1}).sin() * z.t().reshape({-1}), y.select(0, 1) * y.select(0, 2)};
      },
      {leaf({3, 4}), leaf({3, 5})}, 2);
}

TEST(HookScenarios, TwoSavedTensorsOfOneStorage) {
  expect_as_eager(
      [](const List& in) -> List {
        const auto parts = in[0].sin().chunk(2, 1);
        const auto product = parts[0] * parts[1];
        const auto both = in[1].view({2, 2});
        return {product.tanh() * product, both.select(0, 0) * both.select(0, 1)};
      },
      {leaf({3, 4}), leaf({4})}, 2);
}

// Two arguments share memory.
TEST(HookScenarios, ArgumentsShareMemory) {
  const auto run = [](bool compiled, const Hooks& hooks, HookFilter filter) {
    torch::manual_seed(13);
    const auto base = at::randn({8});
    const auto x = leaf({4});
    const auto body = [](const at::Tensor& x, at::Tensor a, const at::Tensor& b) {
      a.mul_(2);
      const auto y = x * b;
      return (y.sin() * b * a).sum();
    };
    auto step = compile(body, options(filter));
    const SavedTensorHooks scope(hooks);
    const auto a = base.slice(0, 0, 4), b = base.slice(0, 4, 8);
    const auto loss = compiled ? step(x, a, b) : body(x, a, b);
    loss.backward();
    EXPECT_EQ(step.report().eager_calls, 0);
    return List{loss.detach(), x.grad(), base};
  };
  expect_as_in_eager(run);
}

// Several elements of the argument share one address.
TEST(HookScenarios, AnExpandedArgument) {
  const auto x = leaf({3, 1});
  const auto body = [](const at::Tensor& x) { return at::softplus(x); };
  const auto tangent = at::randn({3, 4});
  const auto wanted = torch::autograd::grad({body(x.expand({3, 4}))}, {x}, {tangent});
  for (const auto& hooks : exact_hooks()) {
    auto step = compile(body, options(HookFilter::all));
    const SavedTensorHooks scope(hooks);
    EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({step(x.expand({3, 4}))}, {x}, {tangent})))
        << hooks.pair()->options.name;
  }
}

// ---- autograd functions. Their derivatives are wrong on purpose: only they can give them.

struct SavesItsArgument : Function<SavesItsArgument> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x;
  }
  static List backward(AutogradContext* context, List tangents) {
    return {tangents[0] + context->get_saved_variables()[0]};
  }
};

struct SavesAllAndANumber : Function<SavesAllAndANumber> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& y) {
    auto z = x * y.sin();
    context->save_for_backward({x, y, z});
    context->saved_data["columns"] = x.size(1);
    return z;
  }
  static List backward(AutogradContext* context, List tangents) {
    const auto saved = context->get_saved_variables();
    const auto columns = context->saved_data["columns"].toInt();
    return {tangents[0] * saved[1] + saved[2] * columns, tangents[0] * saved[0] * 2};
  }
};

TEST(HookScenarios, FunctionsThatSaveTheirArguments) {
  expect_as_eager([](const List& in) -> List { return {SavesItsArgument::apply(in[0] + 1)}; },
                  {leaf({3, 4})}, 1);
  expect_as_eager(
      [](const List& in) -> List {
        return {SavesItsArgument::apply(SavesAllAndANumber::apply(in[0] * 2, in[1])).cos()};
      },
      {leaf({3, 4}), leaf({3, 4})}, 3);
}

// The last dumped graphs of a compiled callable: the forward, then the backward.
std::vector<std::string> last_dumps(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().string().ends_with("-reinplace.agraph")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const auto& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// AOTAutograd's example: eight bits and a dtype, which is a constant of the program.
TEST(HookScenarios, AFunctionReadsWhatWentThroughEightBits) {
  const TemporaryFolder folder;
  const auto x = leaf({3, 4});
  const auto fn = [](const at::Tensor& x) { return SavesItsArgument::apply(x + 1); };
  auto settings = options(HookFilter::all);
  settings.dump_dir = folder.path();
  auto step = compile(fn, settings);
  const SavedTensorHooks scope(
      [](const at::Tensor& t) { return std::pair(t.scalar_type(), t.to(at::kFloat8_e4m3fn)); },
      [](const std::pair<at::ScalarType, at::Tensor>& p) { return p.second.to(p.first); });
  const auto tangent = at::randn({3, 4});
  const auto found = torch::autograd::grad({step(x)}, {x}, {tangent});
  const auto read = (x.detach() + 1).to(at::kFloat8_e4m3fn).to(at::kFloat);
  EXPECT_TRUE(same_bits({tangent + read}, found));
  const auto graphs = last_dumps(folder.path());
  ASSERT_EQ(graphs.size(), 2u);
  EXPECT_EQ(graphs[0], R"(antegrad.graph 1 "step.forward"
inputs
  %0: f32[3, 4]                       primal argument 0 grad
nodes
  %1: f32[3, 4] = aten::add.Scalar(%0, other=scalar(1), alpha=scalar(1))                # 0
  %2: f32[3, 4] &1 = aten::view.default(%1, size=[3, 4])                                # 1
  %5: f8e4m3fn[3, 4] = aten::_to_copy.default(%1, dtype=f8e4m3fn, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none) # 3
outputs
  %2 result grad
  %5 saved
)");
  EXPECT_EQ(graphs[1], R"(antegrad.graph 1 "step.backward"
inputs
  %5: f8e4m3fn[3, 4]                  saved
  %3: f32[3, 4]                       tangent 0
nodes
  %1: f32[3, 4] = aten::_to_copy.default(%5, dtype=f32, layout=none, device=none, pin_memory=none, non_blocking=false, memory_format=none) # 4
backward
  %4: f32[3, 4] = aten::add.Tensor(%3, %1, alpha=scalar(1))                             # 2
outputs
  %4 gradient 0
)");
}

// ---- filters

std::string lines(const std::vector<std::string>& texts) {
  std::string all;
  for (const auto& text : texts) all += text + "\n";
  return all;
}

TEST(HookScenarios, EachFilterNamesItsTensors) {
  const auto weight = leaf({4, 4});
  const auto body = [weight](const at::Tensor& x) { return x.mm(weight).sin().exp(); };
  const auto lists = [&](HookFilter filter) {
    auto step = compile(body, options(filter));
    const SavedTensorHooks scope(compress::bf16());
    step(leaf({3, 4})).sum().backward();
    const auto program = step.report().programs.at(0);
    return std::pair(lines(program.hooked), lines(program.not_hooked));
  };
  const std::string product = "%2: f32[3, 4] as bf16[3, 4]\n", result = "%4: f32[3, 4]",
                    argument = "%0: f32[3, 4]", held = "%1: f32[4, 4]";
  const auto as_half = [](const std::string& text) {
    return text + " as bf16" + text.substr(text.find('[')) + "\n";
  };
  EXPECT_EQ(lists(HookFilter::donated),
            std::pair(product, argument + ": it is an argument\n" + held +
                                   ": it is a parameter, a buffer or held by the callable\n" +
                                   result + ": it is a result\n"));
  EXPECT_EQ(lists(HookFilter::no_static),
            std::pair(as_half(argument) + product + as_half(result),
                      held + ": it is a parameter, a buffer or held by the callable\n"));
  EXPECT_EQ(
      lists(HookFilter::all),
      std::pair(as_half(argument) + as_half(held) + product + as_half(result), std::string()));
}

// ---- scopes

// Scopes are per thread: each call saves through the scope of its thread, and the backward unpacks
// with the same hooks on any thread.
TEST(HookScenarios, ThreadsHaveScopesOfTheirOwn) {
  const auto body = [](const at::Tensor& x) { return x.exp().sum(); };
  auto step = compile(body, options());
  const auto round = [](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto x = leaf({64});
      for (int i = 0; i < 20; ++i) {
        std::optional<SavedTensorHooks> scope;
        if (t % 2 == 0) scope.emplace(compress::bf16());
        const auto loss = step(x);
        scope.reset();
        List gradient;
        std::thread([&] { gradient = torch::autograd::grad({loss}, {x}); }).join();
        const auto exact = x.detach().exp();
        EXPECT_TRUE(same_bits({t % 2 == 0 ? round(exact) : exact}, gradient));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(step.report().programs.size(), 2u);
  EXPECT_EQ(step.report().eager_calls, 0);
}

}  // namespace saved_tensors_scenarios_test
}  // namespace antegrad::testing
