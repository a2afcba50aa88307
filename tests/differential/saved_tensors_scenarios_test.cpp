// What hooks on saved tensors meet in programs that write, alias, save by functions of their own and call code that
// libtorch does not see; and hooks that do the wrong thing.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>
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

namespace antegrad::testing {
namespace {

using List = std::vector<at::Tensor>;
using Fn = std::function<List(const List&)>;
using torch::autograd::AutogradContext;
using torch::autograd::Function;

constexpr HookFilter kFilters[] = {HookFilter::donated, HookFilter::no_static, HookFilter::all};

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

Options options(HookFilter filter = HookFilter::donated) {
  return Options().with_verify_graphs(true).with_saved_tensors_hooks_filtering_mode(filter);
}

// Results, gradients, and the arguments afterwards. Tangents are whole numbers: libtorch adds those of results that share memory
// in another order outside of a region than inside.
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

// Under hooks that keep every bit, inlined under each filter and eager, a call is what it is in eager. `hooked`: least
// number of saved tensors that hooks stand for under the filter "all".
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

// A buffer that backward reads as it was before the call wrote it.
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
    return List{loss.detach(), x.grad(), buffer};
  };
  for (const auto& hooks : exact_hooks()) {
    for (const auto filter : kFilters) {
      EXPECT_TRUE(same_bits(run(false, hooks, filter), run(true, hooks, filter)))
          << hooks.pair()->options.name;
    }
  }
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

// The same memory comes in twice.
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
    return List{loss.detach(), x.grad(), base};
  };
  for (const auto& hooks : exact_hooks()) {
    for (const auto filter : kFilters) {
      EXPECT_TRUE(same_bits(run(false, hooks, filter), run(true, hooks, filter)))
          << hooks.pair()->options.name;
    }
  }
}

// Several elements of the argument are one in memory.
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

// The last graphs that a compiled callable dumped, the forward and then the backward.
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

// The reference's example: eight bits and a dtype, which is a constant of the program.
TEST(HookScenarios, AFunctionReadsWhatWentThroughEightBits) {
  std::string folder = ::testing::TempDir() + "antegrad_hooks_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto x = leaf({3, 4});
  const auto fn = [](const at::Tensor& x) { return SavesItsArgument::apply(x + 1); };
  auto settings = options(HookFilter::all);
  settings.dump_dir = folder;
  auto step = compile(fn, settings);
  const SavedTensorHooks scope(
      [](const at::Tensor& t) { return std::pair(t.scalar_type(), t.to(at::kFloat8_e4m3fn)); },
      [](const std::pair<at::ScalarType, at::Tensor>& p) { return p.second.to(p.first); });
  const auto tangent = at::randn({3, 4});
  const auto found = torch::autograd::grad({step(x)}, {x}, {tangent});
  const auto read = (x.detach() + 1).to(at::kFloat8_e4m3fn).to(at::kFloat);
  EXPECT_TRUE(same_bits({tangent + read}, found));
  const auto graphs = last_dumps(folder);
  remove_folder(folder);
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

// ---- code that libtorch's dispatcher does not see

// Sixteen bits of each float, by pointer; another name where the hash is another.
Opaque upper_halves(const std::string& hash = "") {
  Opaque code;
  code.name = "upper_halves" + hash;
  code.cache_hash = hash;
  code.compute = [](const List& in) -> List {
    const auto x = in[0].contiguous();
    auto out = at::empty(x.sizes(), x.options().dtype(at::kShort));
    const auto* from = reinterpret_cast<const int16_t*>(x.const_data_ptr<float>());
    for (int64_t i = 0; i < x.numel(); ++i) out.mutable_data_ptr<int16_t>()[i] = from[2 * i + 1];
    return {out};
  };
  code.shapes = [](const List& in) -> List {
    return {at::empty(in[0].sizes(), in[0].options().dtype(at::kShort))};
  };
  return code;
}

Opaque floats_of_upper_halves(const std::string& hash = "") {
  Opaque code;
  code.name = "floats_of_upper_halves" + hash;
  code.cache_hash = hash;
  code.compute = [](const List& in) -> List {
    const auto halves = in[0].contiguous();
    auto out = at::zeros(halves.sizes(), halves.options().dtype(at::kFloat));
    auto* to = reinterpret_cast<int16_t*>(out.mutable_data_ptr<float>());
    for (int64_t i = 0; i < halves.numel(); ++i) {
      to[2 * i + 1] = halves.const_data_ptr<int16_t>()[i];
    }
    return {out};
  };
  code.shapes = [](const List& in) -> List {
    return {at::empty(in[0].sizes(), in[0].options().dtype(at::kFloat))};
  };
  return code;
}

// Control by dtype and size stands beside the calls, and runs when the hooks are captured.
Hooks by_pointer(const std::string& hash, HookOptions settings = {.name = "by_pointer"}) {
  return Hooks(
      [hash](const at::Tensor& x) {
        const bool packs = x.scalar_type() == at::kFloat && x.numel() > 4;
        return std::pair(packs ? opaque(upper_halves(hash), {x})[0] : x, packs);
      },
      [hash](const std::pair<at::Tensor, bool>& packed) {
        const auto& [x, packs] = packed;
        return packs ? opaque(floats_of_upper_halves(hash), {x})[0] : x;
      },
      std::move(settings));
}

// What these hooks leave of a tensor.
at::Tensor cut(const at::Tensor& x) {
  if (x.numel() <= 4) return x.detach();
  return x.detach().view(at::kInt).bitwise_and(static_cast<int64_t>(-65536)).view(at::kFloat);
}

TEST(HookScenarios, HooksMayCallOpaqueCode) {
  const auto x = leaf({8}), y = leaf({4});
  for (const bool inlineable : {true, false}) {
    auto step = compile(
        [](const at::Tensor& x, const at::Tensor& y) { return x.exp().sum() + y.exp().sum(); },
        options());
    const SavedTensorHooks scope(by_pointer("", {.inlineable = inlineable}));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          same_bits({cut(x.exp()), cut(y.exp())}, torch::autograd::grad({step(x, y)}, {x, y})));
    }
    EXPECT_EQ(step.report().eager_calls, 0);
    EXPECT_EQ(step.report().programs.size(), 1u);
  }
}

// Backward passes that are captured later unpack by the same code.
TEST(HookScenarios, EveryBackwardCallsTheOpaqueCodeOfHooks) {
  const auto x = leaf({8}), y = leaf({8});
  using Two = std::pair<at::Tensor, at::Tensor>;
  auto step = compile(
      [](const at::Tensor& x, const at::Tensor& y) {
        Opaque twice;
        twice.name = "twice";
        twice.compute = [](const List& in) -> List { return {in[0] * 2}; };
        twice.backward = [](const List& in) -> List { return {in[1] * 2}; };
        return Two(opaque(twice, {x.exp()})[0].sum(), y.exp().sum() * 3);
      },
      options());
  const SavedTensorHooks scope(by_pointer(""));
  const auto [a, b] = step(x, y);
  const auto of = [&](const List& roots, const List& leaves) {
    return torch::autograd::grad(roots, leaves, {}, /*retain_graph=*/true);
  };
  EXPECT_TRUE(same_bits({cut(x.exp()) * 2}, of({a}, {x})));
  EXPECT_TRUE(same_bits({cut(y.exp()) * 3}, of({b}, {y})));
  EXPECT_TRUE(same_bits({cut(x.exp()) * 2, cut(y.exp()) * 3}, of({a, b}, {x, y})));
  EXPECT_TRUE(same_bits({cut(y.exp()) * 3}, of({a, b}, {y})));
  EXPECT_EQ(step.report().eager_calls, 0);
}

// What a cache would have to know, and why it could not keep a program.
TEST(HookScenarios, TheReportSaysWhatStandsAgainstACache) {
  const auto report_of = [](const std::optional<Hooks>& hooks, const std::string& hash_inside) {
    auto step = compile(
        [&](const at::Tensor& x) {
          const auto y = x.exp().exp();
          return hash_inside.empty() ? y : opaque(upper_halves(hash_inside), {y})[0].sum() + y;
        },
        options());
    std::optional<SavedTensorHooks> scope;
    if (hooks) scope.emplace(*hooks);
    step(leaf({8})).sum().backward();
    return step.report().programs.at(0);
  };
  using Texts = std::vector<std::string>;
  const auto plain = report_of({}, "");
  EXPECT_EQ(plain.cache_bypass, Texts());
  EXPECT_EQ(plain.cache_hashes, Texts());
  const auto unknown = report_of(by_pointer(""), "");
  EXPECT_EQ(unknown.cache_bypass, (Texts{"ag::opaque \"upper_halves\" has no cache_hash",
                                         "ag::opaque \"floats_of_upper_halves\" has no cache_hash",
                                         "hooks 'by_pointer' has no cache_hash"}));
  const auto code_known = report_of(by_pointer("v1"), "");
  EXPECT_EQ(code_known.cache_bypass, Texts{"hooks 'by_pointer' has no cache_hash"});
  const auto known = report_of(by_pointer("v1", {.name = "h", .cache_hash = "h1"}), "");
  EXPECT_EQ(known.cache_bypass, Texts());
  EXPECT_EQ(known.cache_hashes,
            (Texts{"ag::opaque \"upper_halvesv1\": v1",
                   "ag::opaque \"floats_of_upper_halvesv1\": v1", "hooks 'h': h1"}));
  EXPECT_EQ(report_of(compress::bf16(), "").cache_hashes, Texts{"hooks 'bf16': bf16"});
  EXPECT_EQ(report_of({}, "v2").cache_hashes, Texts{"ag::opaque \"upper_halvesv2\": v2"});
}

TEST(HookScenarios, OpaqueCodeInTheCallableStandsAgainstACacheToo) {
  auto step =
      compile([](const at::Tensor& x) { return opaque(upper_halves(), {x})[0]; }, options());
  step(at::randn({8}));
  EXPECT_EQ(step.report().programs.at(0).cache_bypass,
            std::vector<std::string>{"ag::opaque \"upper_halves\" has no cache_hash"});
}

// ---- objects of the runtime as arguments of operators

struct Factor : torch::CustomClassHolder {
  explicit Factor(double by) : by(by) {}
  double by;
};

at::Tensor scaled(const at::Tensor& x, const c10::intrusive_ptr<Factor>& factor) {
  return x * factor->by;
}

TORCH_LIBRARY(hook_scenarios, m) {
  m.class_<Factor>("Factor").def(torch::init<double>());
  m.def("scaled(Tensor x, __torch__.torch.classes.hook_scenarios.Factor factor) -> Tensor");
}
TORCH_LIBRARY_IMPL(hook_scenarios, CPU, m) { m.impl("scaled", &scaled); }
TORCH_LIBRARY_IMPL(hook_scenarios, Meta, m) {
  m.impl("scaled",
         [](const at::Tensor& x, const c10::intrusive_ptr<Factor>&) { return at::empty_like(x); });
}

at::Tensor scale(const at::Tensor& x, const c10::intrusive_ptr<Factor>& factor) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("hook_scenarios::scaled", "")
      .typed<at::Tensor(const at::Tensor&, const c10::intrusive_ptr<Factor>&)>()
      .call(x, factor);
}

// The callable has objects of its own, so that those of the hooks get other numbers, in the forward, in the backward and
// in backwards that are captured later.
TEST(HookScenarios, HooksMayHandObjectsToOperators) {
  const auto of = [](double by) { return c10::make_intrusive<Factor>(by); };
  const auto quarter = of(0.25), half = of(0.5), four = of(4), three = of(3);
  const auto x = leaf({8}), y = leaf({4, 2});
  using Two = std::pair<at::Tensor, at::Tensor>;
  auto step = compile(
      [=](const at::Tensor& x, const at::Tensor& y) {
        const auto factor = scale(x.detach(), three) + scale(x.detach(), half);
        return Two((x.exp() * factor).sum(), y.exp().sum());
      },
      options());
  // Powers of two keep bits; the second factor depends on the dimensions, so that there are two captures.
  const SavedTensorHooks scope(
      [=](const at::Tensor& t) { return scale(scale(t, quarter), t.dim() == 1 ? half : four); },
      [=](const at::Tensor& t) {
        return scale(t.dim() == 1 ? scale(t, of(2)) : scale(t, quarter), four);
      });
  const auto [a, b] = step(x, y);
  const auto gradient_x = x.detach().exp() * (x.detach() * 3 + x.detach() * 0.5);
  const auto grad = [&](const List& roots, const List& leaves) {
    return torch::autograd::grad(roots, leaves, {}, /*retain_graph=*/true);
  };
  EXPECT_TRUE(same_bits({y.detach().exp()}, grad({b}, {y})));
  EXPECT_TRUE(at::allclose(gradient_x, grad({a}, {x})[0]));
  EXPECT_TRUE(at::allclose(gradient_x, grad({a, b}, {x, y})[0]));
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_FALSE(step.report().programs.at(0).cache_bypass.empty());
}

// ---- hooks that do the wrong thing

using Pack = std::function<at::Tensor(const at::Tensor&)>;

struct Wrong {
  const char* name;
  Pack pack, unpack;
  bool eager_too;  // what is wrong is seen in what unpack returns
  const char* words;
};

at::Tensor same(const at::Tensor& x) { return x.clone(); }

std::vector<Wrong> wrong_hooks() {
  const auto sparse = [](const at::Tensor& x) {
    return at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1}), {x.numel()});
  };
  const auto quantized = [](const at::Tensor& x) {
    return at::_empty_affine_quantized(x.sizes(), at::device(at::kCPU).dtype(at::kQInt8), 0.1, 0);
  };
  const auto nested = [](const at::Tensor& x) {
    return at::_nested_tensor_from_tensor_list({at::ones({2}), at::ones({x.numel()})});
  };
  return {
      {"fewer elements", same, [](const at::Tensor& x) { return x.flatten().slice(0, 1); }, true,
       "unpack"},
      {"another rank", same, [](const at::Tensor& x) { return x.unsqueeze(0); }, true, "unpack"},
      {"another dtype", same, [](const at::Tensor& x) { return x.to(at::kDouble); }, true,
       "unpack"},
      {"another device", same,
       [](const at::Tensor& x) { return at::empty(x.sizes(), x.options().device(at::kMeta)); },
       true, "meta"},
      {"nothing", same, [](const at::Tensor&) { return at::Tensor(); }, true, "no tensor"},
      {"sparse", same, sparse, true, "sparse"},
      {"quantised", same, quantized, true, "pack of"},
      {"nested", same, nested, true, "nested"},
      {"packs nothing", [](const at::Tensor&) { return at::Tensor(); }, same, false, "no tensor"},
      {"packs a sparse tensor", sparse, same, false, "sparse"},
      {"packs a quantised tensor", quantized, same, false, "pack of"},
      {"packs a nested tensor", nested, same, false, "nested"},
      {"packs what it makes sparse", [](const at::Tensor& x) { return x.to_sparse(); },
       [](const at::Tensor& x) { return x.to_dense(); }, false, "sparse"},
  };
}

// The callable writes an argument and a buffer and draws random numbers.
struct Subject {
  at::Tensor buffer = at::zeros({4});
  std::function<at::Tensor(const at::Tensor&, at::Tensor)> body =
      [buffer = buffer](const at::Tensor& x, at::Tensor y) {
        buffer.add_(1);
        y.mul_(2);
        return at::dropout(x.exp() * y, 0.5, true).exp().sum() + buffer.sum();
      };
};

TEST(HookScenarios, WrongHooksAreTypedErrorsAndLoseNothing) {
  for (const auto& wrong : wrong_hooks()) {
    for (const bool inlineable : {true, false}) {
      if (!inlineable && !wrong.eager_too) continue;
      SCOPED_TRACE(std::string(wrong.name) + (inlineable ? ", inlined" : ", eager"));
      Subject compiled, eager;
      auto step = compile(compiled.body, options(HookFilter::all));
      torch::manual_seed(21);
      const auto x = leaf({4}), y = at::randn({4});
      const auto x_eager = x.detach().clone().set_requires_grad(true), y_eager = y.clone();
      const auto before = generator_state();
      const auto run = [&] {
        const SavedTensorHooks scope(wrong.pack, wrong.unpack, HookOptions{inlineable, "wrong"});
        step(x, y).backward();
      };
      try {
        run();
        ADD_FAILURE() << "no error";
      } catch (const HookError& error) {
        EXPECT_NE(std::string(error.what()).find(wrong.words), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("'wrong'"), std::string::npos) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      EXPECT_FALSE(x.grad().defined());
      if (inlineable) {
        EXPECT_TRUE(
            same_bits({at::zeros({4}), y_eager, before}, {compiled.buffer, y, generator_state()}));
      } else {  // the backward failed, when the call was over
        set_generator_state(before);
        eager.body(x_eager, y_eager);
      }
      // A call without the hooks is as if there had been none.
      const auto state = generator_state();
      step(x, y).backward();
      set_generator_state(state);
      eager.body(x_eager, y_eager).backward();
      EXPECT_TRUE(
          same_bits({x_eager.grad(), y_eager, eager.buffer}, {x.grad(), y, compiled.buffer}));
      EXPECT_EQ(step.report().eager_calls, 0);
    }
  }
}

// Between pack and unpack anything may stand where hooks run eagerly.
TEST(HookScenarios, EagerHooksPackAnything) {
  const auto x = leaf({3, 4});
  const auto body = [](const at::Tensor& x) { return (x.exp().relu() * x).sum(); };
  const auto wanted = torch::autograd::grad({body(x)}, {x});
  const auto expect = [&](const Pack& pack, const Pack& unpack) {
    auto step = compile(body, options());
    const SavedTensorHooks scope(pack, unpack, HookOptions{.inlineable = false});
    EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({step(x)}, {x})));
  };
  expect([](const at::Tensor& t) { return t.to_sparse(); },
         [](const at::Tensor& t) { return t.to_dense(); });
  expect([](const at::Tensor& t) { return at::_nested_tensor_from_tensor_list({t}); },
         [](const at::Tensor& t) { return t.unbind()[0]; });
}

// An object that antegrad cannot take apart.
TEST(HookScenarios, HooksThatPackIntoObjectsRunEagerly) {
  struct Kept {
    std::shared_ptr<at::Tensor> tensor;
  };
  const auto hooks = [](bool inlineable) {
    return Hooks([](const at::Tensor& t) { return Kept{std::make_shared<at::Tensor>(t.clone())}; },
                 [](const Kept& kept) { return *kept.tensor; },
                 HookOptions{.inlineable = inlineable});
  };
  EXPECT_THROW(hooks(true), OptionError);
  const auto x = leaf({3});
  auto step = compile([](const at::Tensor& x) { return x.exp().sum(); }, options());
  const SavedTensorHooks scope(hooks(false));
  EXPECT_TRUE(same_bits({x.detach().exp()}, torch::autograd::grad({step(x)}, {x})));
}

TEST(HookScenarios, AnUnpackThatFailsWhenItIsInlinedLeavesTheCallUndone) {
  Subject subject;
  auto step = compile(subject.body, options());
  const auto x = leaf({4}), y = at::ones({4});
  const auto before = generator_state();
  {
    const SavedTensorHooks scope(
        same, [](const at::Tensor&) -> at::Tensor { throw std::out_of_range("unpack failed"); });
    EXPECT_THROW(step(x, y), std::out_of_range);
  }
  EXPECT_TRUE(
      same_bits({at::zeros({4}), at::ones({4}), before}, {subject.buffer, y, generator_state()}));
  EXPECT_EQ(step.report().programs.size(), 0u);
  step(x, y).backward();
  EXPECT_TRUE(x.grad().defined());
}

// ---- scopes

// Scopes are of threads: each saves through its own, and backward unpacks what a call packed wherever it runs.
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

}  // namespace
}  // namespace antegrad::testing
