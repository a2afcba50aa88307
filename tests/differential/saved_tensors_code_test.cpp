// Hooks on saved tensors that call code outside of libtorch's dispatcher, or pass runtime objects
// to operators.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace saved_tensors_code_test {

using List = std::vector<at::Tensor>;

Options options(HookFilter filter = HookFilter::donated) {
  return Options().with_verify_graphs(true).with_saved_tensors_hooks_filtering_mode(filter);
}

// The upper sixteen bits of each float, through data pointers. The name depends on the hash.
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

// Branches on dtype and size are in plain C++ and run when the hooks are captured.
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

// The tensor that these hooks restore.
at::Tensor cut(const at::Tensor& x) {
  if (x.numel() <= 4) return x.detach();
  return x.detach().view(at::kInt).bitwise_and(static_cast<int64_t>(-65536)).view(at::kFloat);
}

TEST(HookCode, HooksMayCallOpaqueCode) {
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

// Backward forms that are captured later unpack with the same code.
TEST(HookCode, EveryBackwardCallsTheOpaqueCodeOfHooks) {
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

// The information that a cache would need, and why it could not store a program.
TEST(HookCode, TheReportSaysWhatStandsAgainstACache) {
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

TEST(HookCode, OpaqueCodeInTheCallableStandsAgainstACacheToo) {
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

// The callable has runtime objects of its own, so that those of the hooks get other numbers in the
// forward, in the backward, and in backward forms captured later.
TEST(HookCode, HooksMayHandObjectsToOperators) {
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
  // Multiplying by powers of two keeps the bits. The second factor depends on the dimensions, so
  // there are two captures.
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

}  // namespace saved_tensors_code_test
}  // namespace antegrad::testing
