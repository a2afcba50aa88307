// Hooks on saved tensors that do invalid things: typed errors, and all state is kept.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace saved_tensors_errors_test {

Options options(HookFilter filter = HookFilter::donated) {
  return Options().with_verify_graphs(true).with_saved_tensors_hooks_filtering_mode(filter);
}

using Pack = std::function<at::Tensor(const at::Tensor&)>;

struct Wrong {
  const char* name;
  Pack pack, unpack;
  bool eager_too;  // the error shows in the result of unpack
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

TEST(HookErrors, WrongHooksAreTypedErrorsAndLoseNothing) {
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
      // A later call without the hooks behaves as if they had never run.
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

// Eager hooks may pack into any type.
TEST(HookErrors, EagerHooksPackAnything) {
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

// An object that antegrad cannot flatten.
TEST(HookErrors, HooksThatPackIntoObjectsRunEagerly) {
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

TEST(HookErrors, AnUnpackThatFailsWhenItIsInlinedLeavesTheCallUndone) {
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

}  // namespace saved_tensors_errors_test
}  // namespace antegrad::testing
