// Hooks on the tensors that compiled regions save: inlined in the graphs, and eager.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/measure.h"
#include "common/models.h"
#include "support/bits.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace saved_tensors_test {

using Fn = std::function<at::Tensor(at::Tensor, at::Tensor)>;

template <class Function>
std::vector<at::Tensor> gradients(Function& function, const std::vector<at::Tensor>& xs,
                                  bool retain = false) {
  torch::manual_seed(2);
  return torch::autograd::grad({function(xs[0], xs[1])}, xs, {}, retain);
}

Options options() { return Options().with_verify_graphs(true); }

// Lossless hooks: unpack returns a copy.
Hooks copies(bool inlineable = true) {
  return Hooks([](const at::Tensor& x) { return x.clone(); },
               [](const at::Tensor& x) { return x.clone(); }, {inlineable, "copies"});
}

class Filters : public ::testing::TestWithParam<HookFilter> {};

TEST_P(Filters, GradientsKeepTheirBitsWhereHooksDo) {
  const auto xs = saving_arguments();
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step =
      compile(Fn(saving_chain), options().with_saved_tensors_hooks_filtering_mode(GetParam()));
  const SavedTensorHooks scope(copies());
  EXPECT_TRUE(same_bits(wanted, gradients(step, xs)));
  EXPECT_TRUE(same_bits(wanted, gradients(step, xs)));
  const auto program = step.report().programs.at(0);
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 1u);
  EXPECT_EQ(program.hooks, "copies");
  EXPECT_GE(program.hooked.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(All, Filters,
                         ::testing::Values(HookFilter::donated, HookFilter::no_static,
                                           HookFilter::all));

TEST(SavedTensors, FiltersNameWhatTheyLeave) {
  torch::manual_seed(3);
  const auto weight = at::randn({4, 4}).requires_grad_();
  const auto body = [weight](const at::Tensor& x) { return x.mm(weight).exp(); };
  const auto x = at::randn({3, 4}).requires_grad_();
  const auto hooked = [&](HookFilter filter) {
    auto step = compile(body, options().with_saved_tensors_hooks_filtering_mode(filter));
    const SavedTensorHooks scope(copies());
    step(x).sum().backward();
    const auto program = step.report().programs.at(0);
    EXPECT_EQ(program.hooked.size() + program.not_hooked.size(), 3u);  // x, weight, exp
    std::string why;
    for (const auto& line : program.not_hooked) why += line + "\n";
    return std::pair(program.hooked.size(), why);
  };
  const auto [donated, why] = hooked(HookFilter::donated);
  EXPECT_EQ(donated, 0u);
  EXPECT_NE(why.find("it is a result"), std::string::npos) << why;
  EXPECT_NE(why.find("it is an argument"), std::string::npos) << why;
  EXPECT_NE(why.find("held by the callable"), std::string::npos) << why;
  EXPECT_EQ(hooked(HookFilter::no_static).first, 2u);
  EXPECT_EQ(hooked(HookFilter::all).first, 3u);
}

// The gradient of exp is its saved result, that is, the value that unpack returns, bit for bit.
TEST(SavedTensors, TheBackwardReadsWhatUnpackGivesBack) {
  const auto x = at::randn({64}).requires_grad_();
  const auto body = [](const at::Tensor& x) { return x.exp().sum(); };
  const auto round = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  for (const bool inlineable : {true, false}) {
    auto step = compile(body, options());
    const SavedTensorHooks scope(
        [](const at::Tensor& t) { return std::pair(t.to(at::kBFloat16), t.scalar_type()); },
        [](const std::pair<at::Tensor, at::ScalarType>& p) { return p.first.to(p.second); },
        HookOptions{inlineable, "bf16"});
    const auto gradient = torch::autograd::grad({step(x)}, {x})[0];
    EXPECT_TRUE(same_bits({round(x.detach().exp())}, {gradient})) << inlineable;
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// Scenario: a dtype beside the packed tensor, a scale that depends on the data, control by size and
// dtype.
TEST(SavedTensors, HooksMayDecideBySizeAndKeepConstants) {
  using Packed = std::tuple<at::Tensor, std::vector<at::Tensor>, at::ScalarType, bool>;
  const Hooks hooks(
      [](const at::Tensor& t) -> Packed {
        if (t.numel() < 20 || !t.is_floating_point()) return {t, {}, t.scalar_type(), false};
        const auto scale = t.abs().amax() / 127;
        return {(t / scale).round().to(at::kChar), {scale}, t.scalar_type(), true};
      },
      [](const Packed& packed) {
        const auto& [t, scale, dtype, is_packed] = packed;
        return is_packed ? t.to(dtype) * scale.at(0) : t;
      });
  const auto body = [](const at::Tensor& x, const at::Tensor& y) {
    return x.exp().sum() + y.exp().sum();
  };
  auto step = compile(body, options());
  const SavedTensorHooks scope(hooks);
  const auto x = at::randn({64}).requires_grad_(), y = at::randn({8}).requires_grad_();
  const auto found = torch::autograd::grad({step(x, y)}, {x, y});
  const auto exact = x.detach().exp();
  const auto scale = exact.abs().amax() / 127;
  EXPECT_TRUE(same_bits(
      {(exact / scale).round().to(at::kChar).to(at::kFloat) * scale, y.detach().exp()}, found));
  const auto program = step.report().programs.at(0);
  ASSERT_EQ(program.hooked.size(), 1u);
  EXPECT_NE(program.hooked[0].find("as i8[64], f32[]"), std::string::npos) << program.hooked[0];
  ASSERT_FALSE(program.not_hooked.empty());
}

TEST(SavedTensors, OtherHooksAreAnotherProgramAndKnownOnesAreNot) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  const auto call = [&](const Hooks* hooks) {
    std::optional<SavedTensorHooks> scope;
    if (hooks != nullptr) scope.emplace(*hooks);
    gradients(step, xs);
    return step.report().programs.size();
  };
  const Hooks first = copies(), by_hash({[](const at::Tensor&t) { return t.clone(); },
                                         [](const at::Tensor&t) { return t; },
                                         {true, "hash", "one"}});
  EXPECT_EQ(call(nullptr), 1u);
  EXPECT_EQ(call(&first), 2u);
  EXPECT_EQ(call(&compress::bf16()), 3u);
  EXPECT_EQ(call(&first), 3u);
  EXPECT_EQ(call(nullptr), 3u);
  const Hooks again = copies();  // hooks that capture nothing are compared by type
  EXPECT_EQ(call(&again), 3u);
  EXPECT_EQ(call(&by_hash), 4u);
  float factor = 2;
  const auto stateful = [&] {
    return Hooks([factor](const at::Tensor& t) { return t * factor; },
                 [factor](const at::Tensor& t) { return t / factor; });
  };
  const Hooks two = stateful();
  factor = 4;
  const Hooks four = stateful();
  EXPECT_EQ(call(&two), 5u);
  EXPECT_EQ(call(&four), 6u);
  EXPECT_EQ(call(&two), 6u);
  const Hooks eager = copies(false);  // no part of a program
  EXPECT_EQ(call(&eager), 6u);
  EXPECT_NE(step.report().recompiles.at(0).find("hooks"), std::string::npos);
}

TEST(SavedTensors, TheInnermostScopeCounts) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  const auto hooks_of_last = [&] {
    gradients(step, xs);
    return step.report().programs.back().hooks;
  };
  {
    const SavedTensorHooks outer(compress::bf16());
    {
      const SavedTensorHooks inner(compress::fp8_e4m3());
      EXPECT_EQ(hooks_of_last(), "fp8_e4m3");
      std::thread([&] { EXPECT_EQ(hooks_of_last(), ""); }).join();
    }
    EXPECT_EQ(hooks_of_last(), "bf16");
  }
}

// Hooks that run eagerly: when and how often.
TEST(SavedTensors, EagerHooksRunOnceForEachSavedTensor) {
  const auto xs = saving_arguments();
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step = compile(Fn(saving_chain), options());
  int packs = 0, unpacks = 0;
  const SavedTensorHooks scope(
      [&](const at::Tensor& t) {
        EXPECT_FALSE(t.requires_grad());
        ++packs;
        return t.clone();
      },
      [&](const at::Tensor& t) {
        ++unpacks;
        return t;
      },
      HookOptions{.inlineable = false});
  const auto loss = step(xs[0], xs[1]);
  const int saved = packs;
  EXPECT_GE(saved, 4);
  EXPECT_EQ(unpacks, 0);
  EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({loss}, xs, {}, /*retain_graph=*/true)));
  EXPECT_EQ(unpacks, saved);
  EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({loss}, xs)));
  EXPECT_EQ(unpacks, 2 * saved);
  EXPECT_EQ(packs, saved);
  step(xs[0], xs[1]);  // no backward
  EXPECT_EQ(packs, 2 * saved);
  EXPECT_EQ(unpacks, 2 * saved);
  const at::NoGradGuard no_grad;
  step(xs[0], xs[1]);
  EXPECT_EQ(packs, 2 * saved);
}

// Programs show parts of a written argument by offsets from the start of its memory.
TEST(SavedTensors, EagerHooksKeepTheOffsetOfAWrittenArgument) {
  const auto function = [](const at::Tensor& x, const at::Tensor& y) {
    x.detach().add_(0.25);
    return (x * y).sum();
  };
  const auto arguments = [] {
    torch::manual_seed(1);
    return std::vector{torch::randn({3, 2}).narrow(0, 1, 2).detach().requires_grad_(),
                       torch::randn({2, 2}).requires_grad_()};
  };
  Fn eager = function;
  const auto wanted = gradients(eager, arguments());
  auto step = compile(Fn(function), options());
  const SavedTensorHooks scope(copies(/*inlineable=*/false));
  EXPECT_TRUE(same_bits(wanted, gradients(step, arguments())));
  EXPECT_EQ(step.report().eager_calls, 0);
}

// The user owns what unpack returns: an in-place node of the backward must not write to it.
TEST(SavedTensors, WhatUserHoldsIsNotWrittenOver) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  std::vector<at::Tensor> kept;
  const SavedTensorHooks scope(
      [&](const at::Tensor& t) {
        kept.push_back(t.clone());
        return static_cast<int64_t>(kept.size()) - 1;
      },
      [&](int64_t index) { return kept[index]; }, HookOptions{.inlineable = false});
  const auto loss = step(xs[0], xs[1]);
  std::vector<at::Tensor> before;
  for (const auto& t : kept) before.push_back(t.clone());
  Fn eager = saving_chain;
  EXPECT_TRUE(same_bits(gradients(eager, xs), torch::autograd::grad({loss}, xs)));
  EXPECT_TRUE(same_bits(before, kept));
}

TEST(SavedTensors, HooksThatThrowLeaveEverythingAsItWas) {
  for (const bool inlineable : {true, false}) {
    auto x = at::ones({4}).requires_grad_();
    auto counter = at::zeros({4});
    auto step = compile(
        [](const at::Tensor& x, at::Tensor counter) {
          counter.add_(1);
          return at::dropout(x.exp(), 0.5, true).sum();
        },
        options());
    torch::manual_seed(7);
    const auto state = at::detail::getDefaultCPUGenerator().get_state();
    {
      const SavedTensorHooks scope(
          [](const at::Tensor&) -> at::Tensor { throw std::out_of_range("pack failed"); },
          [](const at::Tensor& t) { return t; }, HookOptions{.inlineable = inlineable});
      EXPECT_THROW(step(x, counter), std::out_of_range);
    }
    EXPECT_TRUE(same_bits({at::zeros({4})}, {counter}));
    EXPECT_TRUE(same_bits({state}, {at::detail::getDefaultCPUGenerator().get_state()}));
    step(x, counter).backward();
    EXPECT_TRUE(x.grad().defined());
  }
}

TEST(SavedTensors, UnpackThatThrowsCanBeTriedAgain) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  bool fail = true;
  const SavedTensorHooks scope([](const at::Tensor& t) { return t.clone(); },
                               [&](const at::Tensor& t) {
                                 if (fail) throw std::out_of_range("unpack failed");
                                 return t;
                               },
                               HookOptions{.inlineable = false});
  const auto loss = step(xs[0], xs[1]);
  EXPECT_THROW(torch::autograd::grad({loss}, xs), std::out_of_range);
  fail = false;
  Fn eager = saving_chain;
  EXPECT_TRUE(same_bits(gradients(eager, xs), torch::autograd::grad({loss}, xs)));
}

TEST(SavedTensors, WrongTensorsAreTypedErrors) {
  const auto xs = saving_arguments();
  const auto run = [&](bool inlineable, auto unpack) {
    auto step = compile(Fn(saving_chain), options());
    const SavedTensorHooks scope([](const at::Tensor& t) { return t.clone(); }, unpack,
                                 HookOptions{.inlineable = inlineable});
    gradients(step, xs);
  };
  for (const bool inlineable : {true, false}) {
    EXPECT_THROW(run(inlineable, [](const at::Tensor& t) { return t.flatten(); }), HookError);
    EXPECT_THROW(run(inlineable, [](const at::Tensor& t) { return t.to(at::kDouble); }), HookError);
    // Other strides are corrected.
    EXPECT_NO_THROW(run(
        inlineable, [](const at::Tensor& t) { return t.dim() == 2 ? t.t().contiguous().t() : t; }));
  }
  EXPECT_THROW(run(false, [](const at::Tensor&) { return at::Tensor(); }), HookError);
}

TEST(SavedTensors, WhatCannotBeInlinedSaysSo) {
  const auto xs = saving_arguments();
  const auto held = at::full({}, 2.0);
  const auto refused = [&](auto pack) {
    auto step = compile(Fn(saving_chain), options());
    const SavedTensorHooks scope(pack, [](const at::Tensor& t) { return t; });
    EXPECT_THROW(gradients(step, xs), CaptureError);
    EXPECT_EQ(step.report().programs.size(), 0u);
  };
  refused([held](const at::Tensor& t) { return t * held; });
  refused([](const at::Tensor& t) { return t + at::randn_like(t); });
  refused([](const at::Tensor& t) { return t.mul_(2); });
  refused([](const at::Tensor& t) { return t.sum().item<float>() > 0 ? t : -t; });
}

// Backward passes in other forms: some gradients, other tangents, retained graphs.
TEST(SavedTensors, EveryBackwardUnpacks) {
  const auto xs = saving_arguments();
  const auto wanted = several_passes(two_results, xs);
  for (const bool inlineable : {true, false}) {
    for (const auto filter : {HookFilter::donated, HookFilter::all}) {
      auto step = compile(TwoResults(two_results),
                          options().with_saved_tensors_hooks_filtering_mode(filter));
      const SavedTensorHooks scope(copies(inlineable));
      EXPECT_TRUE(same_bits(
          wanted, several_passes([&](at::Tensor x, at::Tensor y) { return step(x, y); }, xs)));
      EXPECT_EQ(step.report().eager_calls, 0);
    }
  }
}

struct Compressor {
  const char* name;
  const Hooks& (*hooks)();
  double error;  // of gradients, relative
  double bytes;  // of saved tensors, at most, relative
};

class Compressors : public ::testing::TestWithParam<Compressor> {};

TEST_P(Compressors, SaveLessAndComeClose) {
  torch::manual_seed(9);
  const examples::GptConfig config{
      .vocabulary = 64, .layers = 2, .width = 64, .heads = 4, .context = 64, .dropout = 0.1};
  examples::Gpt model(config);
  const auto tokens = at::randint(config.vocabulary, {4, config.context});
  const auto targets = tokens.roll(-1, 1).contiguous();
  const Fn loss = [model](at::Tensor a, at::Tensor b) mutable { return model->loss(a, b); };
  for (const bool min_cut : {false, true}) {
    auto settings = options();
    if (min_cut) settings.with_min_cut();
    auto plain = compile(model.ptr(), loss, settings),
         packed = compile(model.ptr(), loss, settings);
    const auto run = [&](auto& step) {
      examples::clear_gradients(*model);
      torch::manual_seed(4);
      const auto value = step(tokens, targets);
      value.backward();
      std::vector<at::Tensor> all = {value.detach()};
      for (const auto& p : model->parameters()) all.push_back(p.grad().clone());
      return all;
    };
    const auto wanted = run(plain);
    const SavedTensorHooks scope(GetParam().hooks());
    const auto found = run(packed);
    EXPECT_TRUE(same_bits({wanted[0]}, {found[0]}));  // the forward is as it was
    EXPECT_LT(relative_error(wanted, found), GetParam().error);
    EXPECT_GT(relative_error(wanted, found), 0);
    const auto before = plain.report().programs.at(0), after = packed.report().programs.at(0);
    EXPECT_LT(static_cast<double>(after.saved_bytes),
              GetParam().bytes * static_cast<double>(before.saved_bytes));
    EXPECT_LT(after.predicted_peak_bytes, before.predicted_peak_bytes);
    examples::clear_gradients(*model);
    const auto measured = examples::measure_memory([&] { return packed(tokens, targets); });
    EXPECT_NEAR(static_cast<double>(measured.peak_bytes),
                static_cast<double>(after.predicted_peak_bytes),
                0.05 * static_cast<double>(after.predicted_peak_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt, Compressors,
                         ::testing::Values(Compressor{"fp8_e4m3", compress::fp8_e4m3, 0.06, 0.4},
                                           Compressor{"fp8_e5m2", compress::fp8_e5m2, 0.12, 0.4},
                                           Compressor{"int8_rowwise", compress::int8_rowwise, 0.03,
                                                      0.45},
                                           Compressor{"bf16", compress::bf16, 0.01, 0.6}),
                         [](const auto& info) { return info.param.name; });

}  // namespace saved_tensors_test
}  // namespace antegrad::testing
