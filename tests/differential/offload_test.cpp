// Saved tensors that are offloaded between forward and backward, on the CPU. For GPUs see
// tests/runtime/cuda_offload_test.cpp.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <antegrad/antegrad.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/measure.h"
#include "common/models.h"
#include "hooks/nameless_file.h"
#include "support/bits.h"
#include "support/folder.h"
#include "support/saving.h"

namespace antegrad::testing {
namespace offload_test {

using compress::HostOffload;
using compress::offload_to_host;
using compress::offloaded_bytes;
using Fn = std::function<at::Tensor(at::Tensor, at::Tensor)>;
using List = std::vector<at::Tensor>;

class Offload : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(offloaded_bytes(), 0); }
  void TearDown() override {
    EXPECT_EQ(offloaded_bytes(), 0);
    EXPECT_TRUE(directory.is_empty()) << "files in it have no name";
  }

  /// Offloads all non-empty tensors.
  HostOffload everything() const { return {.min_bytes = 1, .directory = directory.path()}; }

  const TemporaryFolder directory;
};

Options options() { return Options().with_verify_graphs(true); }

template <class Function>
List gradients(Function& function, const List& xs) {
  return torch::autograd::grad({function(xs[0], xs[1])}, xs);
}

at::Tensor call_offload(const at::Tensor& tensor, int64_t max_bytes, const std::string& directory) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::offload", "")
                             .typed<at::Tensor(const at::Tensor&, int64_t, std::string)>();
  return op.call(tensor, max_bytes, directory);
}

at::Tensor call_fetch(const at::Tensor& handle, at::IntArrayRef size, at::IntArrayRef stride,
                      at::ScalarType dtype, at::Device device = at::kCPU) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("antegrad::fetch", "")
                             .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                               at::ScalarType, at::Device)>();
  return op.call(handle, size, stride, dtype, device);
}

at::Tensor call_fetch(const at::Tensor& handle, const at::Tensor& like) {
  return call_fetch(handle, like.sizes(), like.strides(), like.scalar_type());
}

class OffloadFilters : public Offload, public ::testing::WithParamInterface<HookFilter> {};

TEST_P(OffloadFilters, GradientsKeepTheirBits) {
  const auto xs = saving_arguments();
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto settings = options().with_saved_tensors_hooks_filtering_mode(GetParam());
  auto step = compile(Fn(saving_chain), settings);
  for (int i = 0; i < 3; ++i) {
    const SavedTensorHooks scope(offload_to_host(everything()));  // equal ones are one to guards
    EXPECT_TRUE(same_bits(wanted, gradients(step, xs)));
    EXPECT_EQ(offloaded_bytes(), 0);
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  ASSERT_EQ(report.programs.size(), 1u);
  EXPECT_EQ(report.programs[0].hooks, "offload_to_host");
  EXPECT_GE(report.programs[0].hooked.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(All, OffloadFilters,
                         ::testing::Values(HookFilter::donated, HookFilter::no_static,
                                           HookFilter::all));

TEST_F(Offload, WhatIsOutIsWhatTheProgramSaved) {
  const auto x = at::randn({64}).requires_grad_(), y = at::randn({8}).requires_grad_();
  auto step = compile(
      [](const at::Tensor& x, const at::Tensor& y) { return x.exp().sum() + y.exp().sum(); },
      options());
  auto large = everything();
  large.min_bytes = 64 * 4;
  const SavedTensorHooks scope(offload_to_host(large));
  auto loss = step(x, y);
  EXPECT_EQ(offloaded_bytes(), 64 * 4);  // exp of x; that of y is too small
  const auto program = step.report().programs.at(0);
  ASSERT_EQ(program.hooked.size(), 1u);
  EXPECT_NE(program.hooked[0].find("as u8[8]"), std::string::npos) << program.hooked[0];
  loss.backward();
  EXPECT_EQ(offloaded_bytes(), 0);
  EXPECT_TRUE(same_bits({x.detach().exp(), y.detach().exp()}, {x.grad(), y.grad()}));
}

TEST_F(Offload, ADroppedGraphTakesItsFilesAlong) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  const SavedTensorHooks scope(offload_to_host(everything()));
  auto loss = step(xs[0], xs[1]);
  EXPECT_GT(offloaded_bytes(), 0);
  loss.reset();
  EXPECT_EQ(offloaded_bytes(), 0);
  const at::NoGradGuard no_grad;  // saves nothing
  loss = step(xs[0], xs[1]);
  EXPECT_EQ(offloaded_bytes(), 0);
}

TEST_F(Offload, BackwardAgainUnderRetainGraph) {
  const auto xs = saving_arguments();
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step = compile(Fn(saving_chain), options());
  const SavedTensorHooks scope(offload_to_host(everything()));
  const auto loss = step(xs[0], xs[1]);
  const auto out = offloaded_bytes();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({loss}, xs, {}, /*retain_graph=*/true)));
    EXPECT_EQ(offloaded_bytes(), out);
  }
  EXPECT_TRUE(same_bits(wanted, torch::autograd::grad({loss}, xs)));
  EXPECT_EQ(offloaded_bytes(), 0);
}

// Backward passes in other forms: some gradients, other tangents, retained graphs.
TEST_F(Offload, EveryBackwardFetches) {
  const auto xs = saving_arguments();
  const auto wanted = several_passes(two_results, xs);
  for (const auto filter : {HookFilter::donated, HookFilter::all}) {
    auto step =
        compile(TwoResults(two_results), options().with_saved_tensors_hooks_filtering_mode(filter));
    const SavedTensorHooks scope(offload_to_host(everything()));
    EXPECT_TRUE(same_bits(
        wanted, several_passes([&](at::Tensor x, at::Tensor y) { return step(x, y); }, xs)));
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// All dtypes and strides that a program may save: masks, indices, complex numbers.
TEST_F(Offload, EveryDtypeComesBackToTheBit) {
  const auto check = [&](const char* what, const Fn& body, const List& xs) {
    SCOPED_TRACE(what);
    auto eager = body;
    const auto wanted = gradients(eager, xs);
    auto step =
        compile(Fn(body), options().with_saved_tensors_hooks_filtering_mode(HookFilter::all));
    const SavedTensorHooks scope(offload_to_host(everything()));
    EXPECT_TRUE(same_bits(wanted, gradients(step, xs)));
    EXPECT_GE(step.report().programs.at(0).hooked.size(), 1u);
    EXPECT_EQ(step.report().eager_calls, 0);
  };
  const auto leaves = [](at::ScalarType dtype) {
    torch::manual_seed(3);
    return List{at::randn({5, 7}, dtype).requires_grad_(),
                at::randn({5, 7}, dtype).requires_grad_()};
  };
  const Fn products = [](at::Tensor x, at::Tensor y) { return (x.t() * y.t()).sin().mm(y).sum(); };
  check("double", products, leaves(at::kDouble));
  check("bf16", products, leaves(at::kBFloat16));
  check("half", products, leaves(at::kHalf));
  check(
      "bool", [](at::Tensor x, at::Tensor y) { return at::where(x > y, x, y * 2).square().sum(); },
      leaves(at::kFloat));
  check(
      "indices", [](at::Tensor x, at::Tensor y) { return std::get<0>((x * y).max(1)).sum(); },
      leaves(at::kFloat));
  check(
      "complex",
      [](at::Tensor x, at::Tensor y) { return at::complex(x, y).exp().square().abs().sum(); },
      leaves(at::kFloat));
  check(
      "strides",
      [](at::Tensor x, at::Tensor y) {
        return (x.t().exp() * y.t()).contiguous().view({7, 5}).sin().sum();
      },
      leaves(at::kFloat));
}

TEST_F(Offload, ChecksAgainstEagerPass) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options().with_check_against_eager(2));
  const SavedTensorHooks scope(offload_to_host(everything()));
  for (int i = 0; i < 3; ++i) gradients(step, xs);
  EXPECT_EQ(step.report().checked_calls, 2);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(Offload, EmptyTensorsStay) {
  const auto xs = saving_arguments(0);
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step = compile(Fn(saving_chain), options());
  auto all = everything();
  all.min_bytes = 0;
  const SavedTensorHooks scope(offload_to_host(all));
  EXPECT_TRUE(same_bits(wanted, gradients(step, xs)));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(Offload, OtherOptionsAreAnotherProgram) {
  const auto xs = saving_arguments();
  auto step = compile(Fn(saving_chain), options());
  const auto programs = [&](const HostOffload& moved) {
    const SavedTensorHooks scope(offload_to_host(moved));
    gradients(step, xs);
    return step.report().programs.size();
  };
  auto larger = everything(), bound = everything(), defaults = HostOffload();
  larger.min_bytes = 2;
  bound.max_bytes = 1 << 20;
  EXPECT_EQ(programs(everything()), 1u);
  EXPECT_EQ(programs(larger), 2u);
  EXPECT_EQ(programs(bound), 3u);
  EXPECT_EQ(programs(defaults), 4u);
  EXPECT_EQ(programs(everything()), 4u);
}

TEST_F(Offload, ABackwardOnAnotherThread) {
  const auto xs = saving_arguments();
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step = compile(Fn(saving_chain), options());
  const SavedTensorHooks scope(offload_to_host(everything()));
  const auto loss = step(xs[0], xs[1]);
  List found;
  std::thread([&] { found = torch::autograd::grad({loss}, xs); }).join();
  EXPECT_TRUE(same_bits(wanted, found));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(Offload, ThreadsAtOnce) {
  const auto xs = saving_arguments(300);
  Fn eager = saving_chain;
  const auto wanted = gradients(eager, xs);
  auto step = compile(Fn(saving_chain), options());
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (auto& count : right) {
    threads.emplace_back([&] {
      const SavedTensorHooks scope(offload_to_host(everything()));
      for (int i = 0; i < 20; ++i)
        count += static_cast<bool>(same_bits(wanted, gradients(step, xs)));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
  EXPECT_EQ(step.report().eager_calls, 0);
}

class SmallGpt : public Offload {
 protected:
  at::Tensor loss() { return model->loss(tokens, targets); }
  /// Loss and gradients.
  template <class Step>
  List run(Step& step) {
    examples::clear_gradients(*model);
    torch::manual_seed(4);
    const auto value = step();
    value.backward();
    List all = {value.detach()};
    for (const auto& p : model->parameters()) all.push_back(p.grad().clone());
    return all;
  }
  template <class Step>
  int64_t peak(Step& step) {
    examples::clear_gradients(*model);
    return examples::measure_memory([&] { return step(); }).peak_bytes;
  }

  const examples::GptConfig config{
      .vocabulary = 64, .layers = 4, .width = 64, .heads = 4, .context = 64, .dropout = 0.1};
  examples::Gpt model{config};
  at::Tensor tokens = at::randint(config.vocabulary, {4, config.context});
  at::Tensor targets = tokens.roll(-1, 1).contiguous();
};

TEST_F(SmallGpt, AStepTakesLessMemoryAndKeepsItsBits) {
  const HostOffload large{.min_bytes = 4 << 10, .directory = directory.path()};
  for (const bool min_cut : {false, true}) {
    auto settings = options();
    if (min_cut) settings.with_min_cut();
    auto plain = compile(
        model.ptr(), [&] { return loss(); }, settings);
    auto offloading = compile(
        model.ptr(), [&] { return loss(); }, settings);
    const auto wanted = run(plain);
    const auto plain_peak = peak(plain);
    const SavedTensorHooks scope(offload_to_host(large));
    EXPECT_TRUE(same_bits(wanted, run(offloading)));
    const auto before = plain.report().programs.at(0), after = offloading.report().programs.at(0);
    EXPECT_LT(after.saved_bytes, before.saved_bytes / 10);
    const auto less = peak(offloading);
    EXPECT_LT(less, 0.6 * static_cast<double>(plain_peak));
    EXPECT_NEAR(static_cast<double>(less), static_cast<double>(after.predicted_peak_bytes),
                0.05 * static_cast<double>(after.predicted_peak_bytes));
    EXPECT_EQ(offloading.report().eager_calls, 0);
  }
}

TEST_F(SmallGpt, ABudgetIsKept) {
  auto plain = compile(model.ptr(), [&] { return loss(); });
  const auto wanted = run(plain);
  const auto budget = plain.report().programs.at(0).predicted_peak_bytes * 8 / 10;
  auto step = compile(
      model.ptr(), [&] { return loss(); },
      options().with_memory_budget(budget).with_budget_profile(BudgetProfile::off));
  const SavedTensorHooks scope(
      offload_to_host({.min_bytes = 4 << 10, .directory = directory.path()}));
  EXPECT_TRUE(same_bits(wanted, run(step)));
  EXPECT_GE(step.report().programs.at(0).hooked.size(), 1u);
  EXPECT_LE(peak(step), budget);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST_F(SmallGpt, StepsLeaveNothingBehind) {
  auto step = compile(model.ptr(), [&] { return loss(); });
  const SavedTensorHooks scope(
      offload_to_host({.min_bytes = 4 << 10, .directory = directory.path()}));
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  run(step);
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) {
    run(step);
    EXPECT_EQ(offloaded_bytes(), 0);
  }
  EXPECT_EQ(open_files(), before);
}

/// A step that writes to an argument and draws. If packing fails, neither must be visible.
class OffloadErrors : public Offload {
 protected:
  void expect_refused(const HostOffload& moved, const std::string& words) {
    auto x = at::ones({1000}).requires_grad_();
    const auto counter = at::zeros({4});
    auto step = compile(
        [](const at::Tensor& x, at::Tensor counter) {
          counter.add_(1);
          return at::dropout(x.exp(), 0.5, true).exp().sum();
        },
        options());
    torch::manual_seed(7);
    const auto state = generator_state();
    {
      const SavedTensorHooks scope(offload_to_host(moved));
      try {
        step(x, counter);
        ADD_FAILURE() << "nothing was refused";
      } catch (const HookError& error) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    }
    EXPECT_EQ(offloaded_bytes(), 0);
    EXPECT_TRUE(same_bits({at::zeros({4})}, {counter}));
    EXPECT_TRUE(same_bits({state}, {generator_state()}));
    step(x, counter).backward();
    EXPECT_TRUE(x.grad().defined());
  }
};

TEST_F(OffloadErrors, MoreThanMayBeOut) {
  auto bound = everything();
  bound.max_bytes = 3000;  // less than one
  expect_refused(bound, "max_bytes");
  bound.max_bytes = 7000;  // than two
  expect_refused(bound, "bytes on top of");
}

TEST_F(OffloadErrors, NoDirectory) {
  expect_refused({.min_bytes = 1, .directory = directory / "missing"}, "/missing");
  expect_refused({.min_bytes = 1, .directory = "/dev/null"}, "/dev/null");
}

// A limit on file sizes, which fails like a full disk.
TEST_F(OffloadErrors, NoRoom) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_refused(everything(), "a file of 4000 bytes");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

// Space is reserved before the write, so the data are never read.
TEST_F(Offload, AFileLargerThanTheDiskIsRefused) {
  const char byte = 0;
  try {
    const hooks::NamelessFile file(directory.path(), &byte, size_t{1} << 50);
    ADD_FAILURE() << "a petabyte was free";
  } catch (const HookError& error) {
    EXPECT_NE(std::string(error.what()).find("no room"), std::string::npos) << error.what();
  }
}

TEST_F(Offload, NegativeNumbersAreRefused) {
  EXPECT_THROW(offload_to_host({.min_bytes = -1}), OptionError);
  EXPECT_THROW(offload_to_host({.max_bytes = -1}), OptionError);
}

TEST_F(Offload, AHandleOwnsTheCopy) {
  const auto x = at::randn({3, 5}).t();
  auto handle = call_offload(x, 0, directory.path());
  EXPECT_EQ(handle.scalar_type(), at::kByte);
  EXPECT_EQ(handle.nbytes(), 8u);
  EXPECT_EQ(offloaded_bytes(), 60);
  const auto back = call_fetch(handle, x);
  EXPECT_TRUE(same_bits(x, back));
  EXPECT_EQ(x.strides(), back.strides());
  back.zero_();  // a copy of one's own
  EXPECT_TRUE(same_bits(x, call_fetch(handle, x)));
  auto same = handle;
  handle.reset();
  EXPECT_EQ(offloaded_bytes(), 60);
  same.reset();
  EXPECT_EQ(offloaded_bytes(), 0);
}

// On a GPU the copy runs in between.
TEST_F(Offload, AFetchInTwoPartsIsTheSame) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto start = dispatcher.findSchemaOrThrow("antegrad::fetch_start", "")
                         .typed<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef,
                                           at::ScalarType, at::Device)>();
  const auto wait = dispatcher.findSchemaOrThrow("antegrad::fetch_wait", "")
                        .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  const auto x = at::randn({5, 7}).t();
  const auto handle = call_offload(x, 0, directory.path());
  const auto started =
      start.call(handle, x.sizes(), x.strides(), x.scalar_type(), at::Device(at::kCPU));
  const auto found = wait.call(started, handle);
  EXPECT_TRUE(same_bits(found, x));
  EXPECT_EQ(found.strides(), x.strides());
  EXPECT_TRUE(found.is_alias_of(started));
}

TEST_F(Offload, OnlyHandlesAreFetchedAndAsTheyWere) {
  const auto x = at::randn({3, 5});
  const auto handle = call_offload(x, 0, directory.path());
  EXPECT_THROW(call_fetch(handle.clone(), x), HookError);
  EXPECT_THROW(call_fetch(at::zeros({8}, at::kByte), x), HookError);
  EXPECT_THROW(call_fetch(at::Tensor(), x), HookError);
  EXPECT_THROW(call_fetch(handle, x.to(at::kDouble)), HookError);
  EXPECT_THROW(call_fetch(handle, {3, 4}, {4, 1}, at::kFloat), HookError);
  EXPECT_THROW(call_fetch(handle, {3, 5}, {6, 1}, at::kFloat), HookError);
  EXPECT_THROW(call_offload(at::zeros({4, 4}).slice(1, 0, 2), 0, directory.path()), HookError);
  EXPECT_THROW(call_offload(at::zeros({0}), 0, directory.path()), HookError);
  EXPECT_TRUE(same_bits(x, call_fetch(handle, x)));
}

// A child process that ends on request, or when its parent ends.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) {
    if (pipe(ready_) != 0) std::abort();
    id_ = fork();
    if (id_ != 0) return;
    at::set_num_threads(1);  // pools of threads do not survive a fork
    bool right = false;
    try {
      right = body();
    } catch (...) {
    }
    const char answer = right ? 'y' : 'n';
    if (write(ready_[1], &answer, 1) != 1) _exit(2);
    for (;;) pause();
  }
  ~Child() {
    kill(id_, SIGKILL);
    int status = 0;
    waitpid(id_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ready_[0]);
    close(ready_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  bool said_yes() const {
    char answer = 0;
    return read(ready_[0], &answer, 1) == 1 && answer == 'y';
  }

 private:
  int ready_[2] = {};
  pid_t id_ = 0;
};

TEST_F(Offload, AProcessThatIsKilledLeavesNoFile) {
  if (devices().size() > 1) GTEST_SKIP() << "a forked child cannot use CUDA";
  List held;
  {
    const Child child([&] {
      const auto xs = saving_arguments();
      auto step = compile(Fn(saving_chain), options());
      const SavedTensorHooks scope(offload_to_host(everything()));
      held.push_back(step(xs[0], xs[1]));
      return offloaded_bytes() > 0;
    });
    EXPECT_TRUE(child.said_yes());
  }
  EXPECT_TRUE(directory.is_empty());
}

TEST_F(Offload, AForkedChildReadsWhatItsParentMoved) {
  if (devices().size() > 1) GTEST_SKIP() << "a forked child cannot use CUDA";
  const auto x = at::randn({1000});
  auto handle = call_offload(x, 0, directory.path());
  {
    const Child child([&] {
      const bool right = static_cast<bool>(same_bits(x, call_fetch(handle, x)));
      handle.reset();  // the child's alone
      return right;
    });
    EXPECT_TRUE(child.said_yes());
  }
  EXPECT_TRUE(same_bits(x, call_fetch(handle, x)));
}

}  // namespace offload_test
}  // namespace antegrad::testing
