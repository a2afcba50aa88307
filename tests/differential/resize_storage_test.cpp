// resize_storage_() inside of compiled callables: what eager does, with the same bits, and in words
// what a program cannot do.

#include <ATen/ATen.h>
#include <antegrad/antegrad.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "capture/stand_in.h"
#include "support/bits.h"
#include "support/failing_memory.h"
#include "support/folder.h"
#include "support/options.h"

namespace antegrad::testing {
namespace resize_storage_test {

using List = std::vector<at::Tensor>;
using Fn = std::function<List(const List&)>;
using ::testing::HasSubstr;

int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes());
}
int64_t full_bytes(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<int64_t>(tensor.itemsize());
}
void free_storage(const at::Tensor& tensor) { resize_storage_(tensor, 0); }
void allocate(const at::Tensor& tensor) { resize_storage_(tensor, full_bytes(tensor)); }

// As sharded training fills a gathered parameter: without a history, and with no new version.
void refill(const at::Tensor& tensor, const at::Tensor& source) {
  const at::NoGradGuard no_grad;
  tensor.variable_data().copy_(source);
}
void gather(const at::Tensor& tensor, const at::Tensor& source) {
  allocate(tensor);
  refill(tensor, source);
}

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed = 7) {
  at::manual_seed(seed);
  return at::randn(sizes);
}
at::Tensor freed(at::IntArrayRef sizes) {
  auto tensor = at::zeros(sizes);
  free_storage(tensor);
  return tensor;
}

struct Seen {
  List values;  // of results, arguments with memory, and gradients
  std::vector<int64_t> bytes, versions;
};

using Between = std::function<void(const List& inputs)>;

// What a caller sees of two calls, with a backward after each where there is one.
Seen observe(const std::function<List()>& world, const Fn& call, const Between& between) {
  Seen seen;
  const auto inputs = world();
  const auto look = [&] {
    for (const auto& input : inputs) {
      seen.bytes.push_back(bytes_of(input));
      seen.versions.push_back(input._version());
      if (bytes_of(input) != 0) seen.values.push_back(input.detach().clone());
    }
  };
  auto results = call(inputs);
  look();
  for (const auto& result : results) {
    seen.bytes.push_back(bytes_of(result));
    if (bytes_of(result) != 0) seen.values.push_back(result.detach().clone());
  }
  if (between) between(inputs);
  List outputs, leaves;
  for (const auto& result : results) {
    if (result.requires_grad()) outputs.push_back(result.sum());
  }
  for (const auto& input : inputs) {
    if (input.requires_grad()) leaves.push_back(input);
  }
  if (outputs.empty()) return seen;
  const auto gradients =
      torch::autograd::grad(outputs, leaves, {}, false, false, /*allow_unused=*/true);
  for (const auto& gradient : gradients) seen.values.push_back(gradient);
  look();
  return seen;
}

void expect_equal(const Seen& eager, const Seen& compiled) {
  EXPECT_TRUE(same_bits(eager.values, compiled.values));
  EXPECT_EQ(eager.bytes, compiled.bytes);
  EXPECT_EQ(eager.versions, compiled.versions);
}

std::vector<Options> options() {
  return {tested_options(),
          tested_options().with_partition(Partitioner::min_cut),
          tested_options().with_min_cut(without_bans()).with_partition(Partitioner::min_cut),
          tested_options().with_partition(Partitioner::priced),
          tested_options().with_memory_share(0),
          tested_options().with_audit(Audit::every).with_check_against_eager(1)};
}

void expect_as_eager(const std::function<List()>& world, const Fn& fn,
                     const Between& between = nullptr) {
  const auto eager = observe(world, fn, between);
  for (const auto& option : options()) {
    auto step = antegrad::compile(fn, option);
    for (int call = 0; call < 3; ++call) {
      const auto compiled = observe(
          world, [&](const List& inputs) { return step(inputs); }, between);
      expect_equal(eager, compiled);
    }
    EXPECT_EQ(step.report().eager_calls, 0) << step.report();
    EXPECT_EQ(step.report().programs.size(), 1u) << step.report();
  }
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

// Expects that the capture is refused and changes nothing.
template <class E = MutationError>
void expect_refused(const Fn& fn, const List& inputs, const char* words) {
  List before;
  for (const auto& input : inputs) {
    before.push_back(bytes_of(input) == 0 ? at::Tensor() : input.detach().clone());
  }
  try {
    antegrad::compile(fn, tested_options())(inputs);
    ADD_FAILURE() << "expected an error: " << words;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(before[i].defined(), bytes_of(inputs[i]) != 0);
    if (!before[i].defined()) continue;
    EXPECT_TRUE(same_bits(before[i], inputs[i].detach()));
  }
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

// The text of the joint graph after a pass.
std::string graph_text(const Fn& fn, const List& inputs, const std::string& pass) {
  const TemporaryFolder folder;
  auto dumping = Options().with_lowering(Lowering::off);
  dumping.dump_dir = folder.path();
  antegrad::compile(fn, dumping)(inputs);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (!entry.path().string().ends_with("-" + pass + ".agraph")) continue;
    std::ifstream in(entry.path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  ADD_FAILURE() << "no graph after " << pass;
  return "";
}

// --- the operator in eager mode -----------------------------------------------------------------

TEST(ResizeStorage, FreesAndAllocates) {
  const auto x = at::ones({3, 4}).set_requires_grad(true);
  const auto view = x.detach().view(-1);
  const auto version = x._version();
  free_storage(x);
  EXPECT_EQ(bytes_of(x), 0);
  EXPECT_EQ(bytes_of(view), 0);
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{3, 4}));
  free_storage(x);
  resize_storage_(x, 64);
  EXPECT_EQ(bytes_of(view), 64);
  refill(x, at::arange(12.0).view({3, 4}));
  EXPECT_TRUE(same_bits(view, at::arange(12.0)));
  EXPECT_EQ(x._version(), version);
}

TEST(ResizeStorage, RefusesOtherSizes) {
  const auto refuses = [](const at::Tensor& tensor, int64_t bytes, const char* words) {
    try {
      resize_storage_(tensor, bytes);
      ADD_FAILURE() << words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  refuses(at::ones({4}), 8, "one of 16 bytes that becomes one of 8");
  refuses(at::ones({4}), -1, "one of 16 bytes that becomes one of -1");
  refuses(freed({4}), 12, "gets 12 bytes, of which its tensor shows 16");
  refuses(at::ones({0}), 12, "without elements");
  std::vector<float> memory(4);
  const auto foreign = at::from_blob(memory.data(), {4});
  free_storage(foreign);
  refuses(foreign, 16, "belongs to somebody else");
}

// --- what remains of a call ---------------------------------------------------------------------

TEST(ResizeStorage, WhatIsFullMayBeFreed) {
  expect_as_eager(
      [] {
        return List{numbers({3, 4})};
      },
      [](const List& a) {
        const auto y = a[0] * 2;
        free_storage(a[0]);
        return List{y};
      });
}

TEST(ResizeStorage, WhatIsFreedMayHaveBeenWritten) {
  expect_as_eager(
      [] {
        return List{numbers({3, 4})};
      },
      [](const List& a) {
        a[0].add_(1);
        const auto y = a[0].sin();
        free_storage(a[0]);
        return List{y};
      });
}

TEST(ResizeStorage, WhatHasNoMemoryMayGetIt) {
  expect_as_eager(
      [] {
        return List{freed({3, 4}), numbers({3, 4})};
      },
      [](const List& a) {
        allocate(a[0]);
        a[0].copy_(a[1]);
        return List{a[0].sin()};
      });
}

TEST(ResizeStorage, MoreBytesThanATensorShowsAreAllocated) {
  expect_as_eager(
      [] {
        return List{freed({3}), numbers({3})};
      },
      [](const List& a) {
        resize_storage_(a[0], 100);
        a[0].copy_(a[1]);
        return List{a[0].sin()};
      });
}

TEST(ResizeStorage, NothingRemainsOfMemoryThatIsFreedAgain) {
  const Fn fn = [](const List& a) {
    allocate(a[0]);
    a[0].copy_(a[1]);
    const auto y = a[0].matmul(a[0]);
    free_storage(a[0]);
    return List{y};
  };
  const auto world = [] { return List{freed({4, 4}), numbers({4, 4})}; };
  expect_as_eager(world, fn);
  // The copy is gone, and the product reads its source.
  const auto text = graph_text(fn, world(), "capture");
  EXPECT_THAT(text, HasSubstr("primal argument 0 empty_storage version 1"));
  const auto simple = graph_text(fn, world(), "dce");
  EXPECT_THAT(simple, HasSubstr("aten::mm.default(%1, %1)"));
  EXPECT_THAT(simple, ::testing::Not(HasSubstr("clone")));
  EXPECT_THAT(simple, ::testing::Not(HasSubstr("mutated")));
}

TEST(ResizeStorage, MemoryMayComeAndGoSeveralTimes) {
  expect_as_eager(
      [] {
        return List{freed({4, 4}), numbers({4, 4}), numbers({4, 4}, 8)};
      },
      [](const List& a) {
        List results;
        for (const size_t source : {1U, 2U, 1U}) {
          gather(a[0], a[source]);
          results.push_back(a[0].matmul(a[0]));
          free_storage(a[0]);
        }
        return results;
      });
}

TEST(ResizeStorage, WhatIsFullMayBeFreedAndFilledAgain) {
  expect_as_eager(
      [] {
        return List{numbers({4}), numbers({4}, 8)};
      },
      [](const List& a) {
        const auto y = a[0].sin();
        free_storage(a[0]);
        allocate(a[0]);
        a[0].copy_(a[1]);
        return List{y, a[0].cos()};
      });
}

TEST(ResizeStorage, WhatNobodyReadsMayStayWithoutMemory) {
  expect_as_eager(
      [] {
        return List{freed({4}), numbers({4})};
      },
      [](const List& a) {
        return List{a[0], a[1].sin(), at::zeros_like(a[0])};
      });
}

// --- ways to fill memory ------------------------------------------------------------------------

TEST(ResizeStorage, AllOfTheMemoryIsFilledInOneCall) {
  using Fill = std::function<void(const at::Tensor& x, const List& a)>;
  const std::vector<std::pair<const char*, Fill>> fills = {
      {"copy", [](const at::Tensor& x, const List& a) { x.copy_(a[0]); }},
      {"copy of another dtype", [](const at::Tensor& x, const List& a) { x.copy_(a[1]); }},
      {"copy of fewer elements", [](const at::Tensor& x, const List& a) { x.copy_(a[0][0]); }},
      {"copy of other strides", [](const at::Tensor& x, const List& a) { x.copy_(a[2].t()); }},
      {"copy into a view",
       [](const at::Tensor& x, const List& a) { x.view(-1).copy_(a[0].view(-1)); }},
      {"copy into the transposed", [](const at::Tensor& x, const List& a) { x.t().copy_(a[2]); }},
      {"copy into a slice", [](const at::Tensor& x, const List& a) { x.slice(0).copy_(a[0]); }},
      {"copy into each of the only row",
       [](const at::Tensor& x, const List& a) {
         x.view({1, 3, 4})[0].copy_(a[0]);
       }},
      {"list",
       [](const at::Tensor& x, const List& a) {
         const auto other = at::zeros({2});
         at::_foreach_copy_({other, x}, {at::ones({2}), a[0]});
       }},
      {"out",
       [](const at::Tensor& x, const List& a) {
         auto out = x;
         at::mul_out(out, a[0], a[0]);
       }},
      {"fill", [](const at::Tensor& x, const List& /*a*/) { x.fill_(0.5); }},
      {"zero", [](const at::Tensor& x, const List& /*a*/) { x.zero_(); }},
      {"draw", [](const at::Tensor& x, const List& /*a*/) { x.normal_(); }},
  };
  for (const auto& [name, write] : fills) {
    SCOPED_TRACE(name);
    const auto world = [] {
      return List{freed({3, 4}), numbers({3, 4}), numbers({3, 4}).to(at::kBFloat16),
                  numbers({4, 3})};
    };
    for (const bool stays : {true, false}) {
      expect_as_eager(world, [write = write, stays](const List& a) {
        allocate(a[0]);
        write(a[0], {a.begin() + 1, a.end()});
        const auto y = a[0] * 3;
        if (!stays) free_storage(a[0]);
        return List{y};
      });
    }
  }
}

TEST(ResizeStorage, AliasesThatTheCallableKeepsSeeTheCopy) {
  expect_as_eager(
      [] {
        return List{freed({3, 4}), numbers({3, 4})};
      },
      [](const List& a) {
        const auto flat = a[0].view(-1);
        const auto detached = a[0].detach();
        gather(a[0], a[1]);
        a[0].mul_(2);
        const auto y = List{flat * 3, detached.sin()};
        free_storage(a[0]);
        return y;
      });
}

// The copy stays where its source is written before the copy is read.
TEST(ResizeStorage, ACopyIsNoAliasOfItsSource) {
  expect_as_eager(
      [] {
        return List{freed({3, 4}), numbers({3, 4})};
      },
      [](const List& a) {
        gather(a[0], a[1]);
        a[1].zero_();
        const auto y = a[0] * 3;
        free_storage(a[0]);
        return List{y};
      });
}

// --- arguments that share memory ----------------------------------------------------------------

TEST(ResizeStorage, ArgumentsThatShareMemoryAreOneInput) {
  const auto world = [] {
    const auto x = freed({3, 4});
    return List{x, x.view(-1), x.detach(), numbers({3, 4})};
  };
  for (const bool stays : {true, false}) {
    const Fn fn = [stays](const List& a) {
      allocate(a[0]);
      a[2].copy_(a[3]);
      const auto y = List{a[1] * 2, a[0].sin(), a[2].cos()};
      if (!stays) free_storage(a[1]);
      return y;
    };
    expect_as_eager(world, fn);
  }
  expect_as_eager(
      [] {
        const auto memory = numbers({24});
        return List{memory.narrow(0, 4, 8), memory.narrow(0, 10, 8).detach()};
      },
      [](const List& a) {
        const auto y = a[0] + a[1];
        free_storage(a[1]);
        return List{y};
      });
}

// --- training -----------------------------------------------------------------------------------

// Derivatives of these read results, or nothing.
TEST(ResizeStorage, WhatTheBackwardNeedsIsSavedBeforeItsSourceIsFreed) {
  expect_as_eager(
      [] {
        return List{numbers({4, 4}).set_requires_grad(true)};
      },
      [](const List& a) {
        const auto y = a[0].exp();
        const auto z = (a[0] * 2).tanh();
        free_storage(a[0]);
        return List{y.sin(), z * z};
      });
}

List training_world() {
  return {numbers({2, 4}).set_requires_grad(true), freed({3, 4}).set_requires_grad(true),
          numbers({3, 4}, 8)};
}

// The forward of a sharded layer: its weight is gathered, used and freed.
at::Tensor layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& shard) {
  gather(weight, shard);
  auto y = at::linear(x, weight).relu();
  free_storage(weight);
  return y;
}

TEST(ResizeStorage, TheCallerFillsWhatIsSavedBeforeTheBackward) {
  const Fn fn = [](const List& a) { return List{layer(a[0], a[1], a[2])}; };
  expect_as_eager(training_world, fn, [](const List& a) { gather(a[1], a[2]); });
}

TEST(ResizeStorage, HooksOfTheBackwardGatherAndFree) {
  const Fn fn = [](const List& a) {
    const auto x = a[0] * 1;
    x.register_hook([weight = a[1]](const at::Tensor& gradient) {
      free_storage(weight);
      return gradient;
    });
    const auto y = layer(x, a[1], a[2]) * 2;
    y.register_hook([weight = a[1], shard = a[2]](const at::Tensor& gradient) {
      gather(weight, shard);
      return gradient;
    });
    return List{y};
  };
  expect_as_eager(training_world, fn);
}

TEST(ResizeStorage, ABackwardThatReadsFreedMemoryIsRefused) {
  const auto fn = [](const List& a) { return List{layer(a[0], a[1], a[2])}; };
  for (const auto& option : options()) {
    auto step = antegrad::compile(fn, Options(option).with_check_against_eager(0));
    const auto world = training_world();
    const auto results = step(world);
    try {
      results[0].sum().backward();
      ADD_FAILURE() << "the weight has no memory";
    } catch (const BackwardError& error) {
      EXPECT_THAT(error.what(), HasSubstr("whose storage was freed"));
    }
  }
}

// Views of the weight are computed in the backward, from the weight.
TEST(ResizeStorage, TheBackwardSavesTheBaseOfViews) {
  const Fn fn = [](const List& a) { return List{layer(a[0], a[1], a[2])}; };
  for (const auto& option : options()) {
    auto step = antegrad::compile(fn, Options(option).with_check_against_eager(0));
    step(training_world());
    const auto& program = step.report().programs.at(0);
    EXPECT_LE(program.saved_tensors, 1) << step.report();  // of relu
  }
}

TEST(ResizeStorage, ALaterBackwardIsCapturedAsTheCallWas) {
  const Fn fn = [](const List& a) { return List{layer(a[0], a[1], a[2]), (a[0] * a[3]).exp()}; };
  const auto world = [] {
    auto all = training_world();
    all.push_back(numbers({2, 4}, 9).set_requires_grad(true));
    return all;
  };
  // From one result only: another form than the one that was captured with the forward.
  const auto run = [&](const Fn& call) {
    const auto inputs = world();
    const auto results = call(inputs);
    gather(inputs[1], inputs[2]);
    const List outputs{results[0].sum()};
    return torch::autograd::grad(outputs, {inputs[0], inputs[1]});
  };
  const auto eager = run(fn);
  for (const auto& option : options()) {
    auto step = antegrad::compile(fn, option);
    EXPECT_TRUE(same_bits(eager, run([&](const List& inputs) { return step(inputs); })));
    EXPECT_TRUE(same_bits(eager, run([&](const List& inputs) { return step(inputs); })));
  }
}

TEST(ResizeStorage, ParametersOfAModule) {
  const auto run = [](bool compiled) {
    at::manual_seed(3);
    auto model = torch::nn::Linear(4, 3);
    const auto shard = model->weight.detach().clone();
    free_storage(model->weight);
    const auto fn = [&](const at::Tensor& x) {
      gather(model->weight, shard);
      auto y = model->forward(x).tanh();
      free_storage(model->weight);
      return y;
    };
    auto step = antegrad::compile(model.ptr(), fn, tested_options());
    List seen;
    for (int i = 0; i < 3; ++i) {
      const auto x = numbers({2, 4}, i).set_requires_grad(true);
      const auto y = compiled ? step(x) : fn(x);
      EXPECT_EQ(bytes_of(model->weight), 0);
      gather(model->weight, shard);
      y.sum().backward();
      free_storage(model->weight);
      seen.insert(seen.end(), {y.detach(), x.grad(), model->weight.grad().clone()});
    }
    EXPECT_EQ(step.report().programs.size(), compiled ? 1u : 0u) << step.report();
    return seen;
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

// --- guards -------------------------------------------------------------------------------------

TEST(ResizeStorage, WhetherThereIsMemoryIsGuarded) {
  const auto fn = [](const List& a) {
    if (bytes_of(a[0]) == 0) gather(a[0], a[1]);
    return List{a[0] * 2};
  };
  auto step = antegrad::compile(fn, tested_options());
  const auto source = numbers({4, 4});
  const auto run = [&](const at::Tensor& x) { return step(List{x, source})[0]; };
  EXPECT_TRUE(same_bits(run(source.clone()), source * 2));
  EXPECT_TRUE(same_bits(run(freed({4, 4})), source * 2));
  EXPECT_TRUE(same_bits(run(source.clone()), source * 2));
  EXPECT_TRUE(same_bits(run(freed({4, 4})), source * 2));
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2u) << report;
  ASSERT_FALSE(report.recompiles.empty());
  std::ostringstream text;
  text << report;
  EXPECT_THAT(text.str(), HasSubstr("its storage was freed"));
}

TEST(ResizeStorage, WhetherAParameterHasMemoryIsGuarded) {
  auto model = torch::nn::Linear(4, 3);
  auto step = antegrad::compile(
      model.ptr(), [&](const at::Tensor& x) { return model->forward(x); }, tested_options());
  const auto x = numbers({2, 4});
  const auto y = step(x);
  const auto weight = model->weight.detach().clone();
  free_storage(model->weight);
  EXPECT_THROW(step(x), MutationError);
  gather(model->weight, weight);
  EXPECT_TRUE(same_bits(step(x).detach(), y.detach()));
  EXPECT_EQ(step.report().programs.size(), 1u);
}

// --- refusals -----------------------------------------------------------------------------------

TEST(ResizeStorage, MemoryWithoutDataIsNotRead) {
  const auto source = numbers({3, 4});
  expect_refused([](const List& a) { return List{a[0] * 2}; }, {freed({3, 4})},
                 "a tensor whose storage has no memory, read at");
  expect_refused(
      [](const List& a) {
        free_storage(a[0]);
        return List{a[0] * 2};
      },
      {source}, "a tensor whose storage has no memory, read at");
  expect_refused(
      [](const List& a) {
        const auto row = a[0][1];
        free_storage(a[0]);
        return List{row * 2};
      },
      {source}, "a tensor whose storage has no memory, read at");
  expect_refused(
      [](const List& a) {
        allocate(a[0]);
        return List{a[0] * 2};
      },
      {freed({3, 4})}, "allocated and not filled, read at");
  expect_refused(
      [](const List& a) {
        allocate(a[0]);
        a[0][1].copy_(a[1][1]);
        return List{a[1] * 2};
      },
      {freed({3, 4}), source}, "allocated and not filled, read at");
  expect_refused(
      [](const List& a) {
        allocate(a[0]);
        a[0].add_(1);
        return List{a[1] * 2};
      },
      {freed({3, 4}), source}, "allocated and not filled, read at");
}

TEST(ResizeStorage, WhatIsAllocatedIsFilled) {
  expect_refused(
      [](const List& a) {
        allocate(a[0]);
        return List{a[1] * 2};
      },
      {freed({3, 4}), numbers({3, 4})}, "48 bytes that the callable allocates and leaves as it is");
}

TEST(ResizeStorage, WhatIsFreedIsNotWritten) {
  const auto source = numbers({3, 4});
  expect_refused(
      [](const List& a) {
        a[0].copy_(a[1]);
        return List{a[1] * 2};
      },
      {freed({3, 4}), source}, "a write to one that was freed");
  expect_refused(
      [](const List& a) {
        free_storage(a[0]);
        a[0].copy_(a[1]);
        allocate(a[0]);
        return List{a[1] * 2};
      },
      {source.clone(), source}, "a write to one that was freed");
}

TEST(ResizeStorage, OtherSizesAndTensors) {
  const auto resizes = [](int64_t bytes) {
    return [bytes](const List& a) {
      resize_storage_(a[0], bytes);
      return List{a[1] * 2};
    };
  };
  const auto source = numbers({3, 4});
  expect_refused(resizes(96), {source.clone(), source}, "one of 48 bytes that becomes one of 96");
  expect_refused(resizes(44), {freed({3, 4}), source}, "gets 44 bytes, of which its tensor shows");
  expect_refused(
      [](const List& a) {
        const auto y = a[0] * 2;
        free_storage(y);
        return List{y};
      },
      {source}, "that of a tensor which the callable made");
  expect_refused(
      [](const List& a) {
        free_storage(a[0]);
        resize_storage_(a[0], 96);
        a[0].copy_(a[1]);
        return List{a[1] * 2};
      },
      {source.clone(), source}, "one of 48 bytes that has 96 in the end");
  expect_refused([](const List& a) { return List{a[0].view(-1)}; }, {freed({3, 4})},
                 "a view of an input whose storage has none");
}

TEST(ResizeStorage, ABackwardLeavesSizesAsTheyWere) {
  const auto fn = [](const List& a) {
    const auto y = layer(a[0], a[1], a[2]) * 2;
    y.register_hook([weight = a[1], shard = a[2]](const at::Tensor& gradient) {
      gather(weight, shard);
      return gradient;
    });
    return List{y};
  };
  auto step = antegrad::compile(fn, tested_options());
  const auto results = step(training_world());
  try {
    results[0].sum().backward();
    ADD_FAILURE() << "the weight would stay";
  } catch (const MutationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("one of 0 bytes that has 48 after it"));
  }
}

TEST(ResizeStorage, HigherDerivativesOfACallThatAllocates) {
  const auto fn = [](const List& a) {
    allocate(a[0]);
    a[0].copy_(a[1]);
    return List{(a[0] * a[2]).sin()};
  };
  auto step = antegrad::compile(fn, tested_options().with_higher_derivatives(true));
  const auto x = numbers({4}).set_requires_grad(true);
  const auto results = step(List{freed({4}), numbers({4}, 8), x});
  const List outputs{results[0].sum()};
  EXPECT_THROW(torch::autograd::grad(outputs, {x}, {}, true, /*create_graph=*/true), BackwardError);
}

// --- errors -------------------------------------------------------------------------------------

TEST(ResizeStorage, ACallThatFindsNoMemoryChangesNothing) {
  const auto fn = [](const List& a) {
    for (const size_t i : {0U, 1U}) gather(a[i], a[2]);
    free_storage(a[3]);
    return List{at::bernoulli(a[2].sigmoid())};
  };
  auto step = antegrad::compile(fn, tested_options());
  const FailingMemory memory;
  const auto world = [] { return List{freed({64}), freed({64}), numbers({64}), numbers({64})}; };
  step(world());
  bool complete = false;
  for (int64_t allowed = 0; !complete && allowed < 100; ++allowed) {
    const auto inputs = world();
    const auto source = inputs[3].clone();
    const auto state = generator_state();
    FailingMemory::fail_after(allowed);
    try {
      step(inputs);
      complete = true;
    } catch (const c10::Error&) {
    }
    FailingMemory::fail_after(-1);
    const auto bytes = complete ? 256 : 0;
    EXPECT_EQ(bytes_of(inputs[0]), bytes);
    EXPECT_EQ(bytes_of(inputs[1]), bytes);
    EXPECT_EQ(bytes_of(inputs[3]), complete ? 0 : 256);
    if (complete) continue;
    EXPECT_TRUE(same_bits(inputs[3], source));
    EXPECT_TRUE(same_bits(generator_state(), state));
  }
  EXPECT_TRUE(complete);
}

}  // namespace resize_storage_test
}  // namespace antegrad::testing
