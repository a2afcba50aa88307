// Kernels that throw while a program runs: the error is eager's with the place added, and the state
// is as before the call.

#include <ATen/ATen.h>
#include <antegrad/inside.h>
#include <cxxabi.h>
#include <torch/utils.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "runtime/failing_ops.h"
#include "support/custom_ops.h"
#include "support/parity.h"

// The current line as errors name it.
#define THIS_LINE (std::string("kernel_errors_test.cpp:") + std::to_string(__LINE__))

namespace antegrad::testing {
namespace kernel_errors_test {

using List = std::vector<at::Tensor>;

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

struct Thrown {
  std::string type, text;
  std::string message = text;  // the original text, without additions
};

// The exception that `run` throws, by its dynamic type.
Thrown thrown_by(const std::function<void()>& run) {
  const auto type = [] { return std::string(abi::__cxa_current_exception_type()->name()); };
  try {
    run();
  } catch (const c10::Error& error) {
    return {type(), error.what_without_backtrace(), error.msg()};
  } catch (const std::exception& error) {
    return {type(), error.what()};
  } catch (...) {
    return {type(), ""};
  }
  return {"nothing", ""};
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in:\n" << text;
  }
}

struct State {
  explicit State(const List& tensors) : generator(generator_state()) {
    for (const auto& t : tensors) {
      bits.push_back(t.detach().clone());
      versions.push_back(t._version());
      had_grad.push_back(t.is_leaf() && t.grad().defined());
    }
  }
  void expect_same_as(const State& other) const {
    EXPECT_TRUE(same_bits(bits, other.bits));
    EXPECT_EQ(versions, other.versions);
    EXPECT_EQ(had_grad, other.had_grad);
    EXPECT_TRUE(same_bits(generator, other.generator));
  }
  List bits;
  std::vector<uint32_t> versions;
  std::vector<bool> had_grad;
  at::Tensor generator;
};

// `fn` fails on `bad` because of its data, and on `good` while `fault` is active. Expects eager's
// type and text with `parts` added, unchanged state, and that the next call is not affected.
void expect_failure(const Function& fn, const List& good, const List& bad,
                    const std::vector<std::string>& parts) {
  const auto expected = thrown_by([&] { fn(clone_all(bad)); });
  ASSERT_NE(expected.type, "nothing");
  auto step = antegrad::compile(fn);
  for (const bool warm : {false, true}) {
    if (warm) step(clone_all(good));
    const auto arguments = clone_all(bad);
    const State before(arguments);
    const auto found = thrown_by([&] { step(arguments); });
    EXPECT_EQ(found.type, expected.type);
    expect_parts(found.text, parts);
    expect_parts(found.text, {expected.message});
    State(arguments).expect_same_as(before);
  }
  const auto outcome = [&](const Function& f) {
    torch::manual_seed(3);
    const auto arguments = clone_all(good);
    const auto results = f(arguments);
    for (const auto& r : results) {
      if (r.requires_grad()) r.sum().backward({}, true);
    }
    List all = results;
    for (const auto& a : arguments) {
      all.push_back(a.detach());
      if (a.is_leaf()) all.push_back(a.grad());
    }
    all.push_back(generator_state());
    return all;
  };
  EXPECT_TRUE(same_bits(outcome(fn), outcome([&](const List& a) { return step(a); })));
  EXPECT_EQ(step.report().eager_calls, 0);
  EXPECT_EQ(step.report().programs.size(), 1U);
}

TEST(KernelErrors, AnIndexThatOnlyTheDataShows) {
  std::string line;
  expect_failure(
      [&](const List& a) -> List {
        auto noisy = at::dropout(a[0], 0.5, true);
        a[2].add_(1);
        line = THIS_LINE, noisy = noisy.index_select(0, a[1]);
        return {noisy.sin(), a[2] * 2};
      },
      {leaf({4, 3}), at::tensor({0, 3}), at::randn({3})},
      {leaf({4, 3}), at::tensor({0, 4}), at::randn({3})}, {"aten::index_select", "'step.forward'"});
  // The line is only known after the call.
  auto step = antegrad::compile([&](const at::Tensor& x, const at::Tensor& i) {
    line = THIS_LINE, (void)0;
    return x.index_select(0, i);
  });
  const auto text = thrown_by([&] { step(at::randn({4}), at::tensor({9})); }).text;
  const auto next = std::stoi(line.substr(line.find(':') + 1)) + 1;
  expect_parts(text, {"from kernel_errors_test.cpp:" + std::to_string(next)});
}

TEST(KernelErrors, OtherOperatorsThatLookAtTheirData) {
  expect_failure([](const List& a) -> List { return {at::embedding(a[0], a[1])}; },
                 {leaf({4, 3}), at::tensor({1, 2})}, {leaf({4, 3}), at::tensor({1, 7})},
                 {"aten::embedding"});
  expect_failure([](const List& a) -> List { return {a[0].gather(0, a[1])}; },
                 {leaf({4}), at::tensor({1, 2})}, {leaf({4}), at::tensor({1, -7})},
                 {"aten::gather"});
  expect_failure([](const List& a) -> List { return {at::nll_loss(a[0], a[1])}; },
                 {leaf({2, 3}), at::tensor({1, 2}, at::kLong)},
                 {leaf({2, 3}), at::tensor({1, 3}, at::kLong)}, {"aten::nll_loss"});
  expect_failure([](const List& a) -> List { return {at::linalg_cholesky(a[0]).sum()}; },
                 {at::eye(3).set_requires_grad(true)}, {(-at::eye(3)).set_requires_grad(true)},
                 {"cholesky"});
}

TEST(KernelErrors, AnAbsurdAllocation) {
  const auto fn = [](const at::Tensor& x, int64_t rows) {
    return x.sin() + (x.expand({rows, 3}) + 1).sum(0);
  };
  const auto x = leaf({1, 3});
  const int64_t absurd = int64_t{1} << 48;
  const auto expected = thrown_by([&] { fn(x, absurd); });
  // A kernel would need no memory, but never end.
  for (const auto lowering : {Lowering::off, Lowering::exact}) {
    auto step = antegrad::compile(fn, Options().with_lowering(lowering));
    const auto found = thrown_by([&] { step(x, absurd); });
    EXPECT_EQ(found.type, expected.type);
    expect_parts(found.text, {"aten::add", "memory", "kernel_errors_test.cpp:"});
    EXPECT_TRUE(same_bits(step(x, int64_t{2}), fn(x, 2)));
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

template <class E, class... Args>
std::exception_ptr make(Args... args) {
  return std::make_exception_ptr(E(args...));
}

TEST(KernelErrors, OfTheStandardLibraryKeepTheirType) {
  const Function fn = [](const List& a) -> List {
    a[1].mul_(3);
    return {doubled(a[0].sin()).cos(), a[1] + 1};
  };
  const List good = {leaf({3}), at::randn({2})};
  for (const auto& error :
       {make<std::runtime_error>("no luck"), make<std::logic_error>("no luck"),
        make<std::invalid_argument>("no luck"), make<std::domain_error>("no luck"),
        make<std::length_error>("no luck"), make<std::out_of_range>("no luck"),
        make<std::range_error>("no luck"), make<std::overflow_error>("no luck"),
        make<std::underflow_error>("no luck"), make<InputError>("no luck")}) {
    auto step = antegrad::compile(fn);
    step(clone_all(good));
    const auto arguments = clone_all(good);
    const State before(arguments);
    Thrown expected, found;
    {
      const Fault::Scope fault(Fault::forward, error);
      expected = thrown_by([&] { fn(clone_all(good)); });
      found = thrown_by([&] { step(arguments); });
    }
    EXPECT_EQ(found.type, expected.type);
    expect_parts(found.text,
                 {"no luck", "agfail::doubled", "'step.forward'", "kernel_errors_test.cpp:"});
    State(arguments).expect_same_as(before);
    EXPECT_TRUE(same_bits(step(clone_all(good)), fn(clone_all(good))));
  }
}

// Collects libtorch's warnings.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { text += warning.msg() + '\n'; }
  std::string text;
  c10::WarningUtils::WarningHandlerGuard guard{this};
};

TEST(KernelErrors, ForeignTypesPassAsTheyAreAndAWarningSaysWhere) {
  auto step = antegrad::compile([](const at::Tensor& x) { return doubled(x).sin(); });
  const auto x = at::randn({3});
  step(x);
  for (const auto& error : {std::make_exception_ptr(ForeignError{7}), make<std::bad_alloc>()}) {
    Warnings warnings;
    const Fault::Scope fault(Fault::forward, error);
    EXPECT_EQ(thrown_by([&] { step(x); }).type, thrown_by([&] { doubled(x); }).type);
    expect_parts(warnings.text, {"agfail::doubled", "kernel_errors_test.cpp:"});
  }
  EXPECT_TRUE(same_bits(step(x), (x * 2).sin()));
}

Opaque picky() {
  Opaque code;
  code.name = "picky";
  code.compute = [](const List& in) -> List {
    if (in[0][0].item<float>() < 0) throw std::out_of_range("below zero");
    TORCH_CHECK_VALUE(in[0][0].item<float>() < 10, "too much");
    return {in[0] + 1};
  };
  code.backward = [](const List& in) -> List {
    TORCH_CHECK_INDEX(in[0][0].item<float>() < 5, "half too much");
    return {in[1]};
  };
  return code;
}

TEST(KernelErrors, OpaqueCode) {
  const Function fn = [](const List& a) -> List { return {opaque(picky(), {a[0] * 1})[0].sin()}; };
  const auto filled = [](float value) { return at::full({3}, value).set_requires_grad(true); };
  expect_failure(fn, {filled(1)}, {filled(-1)}, {"\"picky\"", "kernel_errors_test.cpp:"});
  expect_failure(fn, {filled(1)}, {filled(20)}, {"\"picky\"", "kernel_errors_test.cpp:"});
}

TEST(KernelErrors, ABrokenPromiseNamesTheLine) {
  auto step = antegrad::compile(
      [](const at::Tensor& x) { return call_op<at::Tensor(const at::Tensor&)>("lies", x); });
  try {
    step(at::randn({3, 2}));
    ADD_FAILURE() << "nothing thrown";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.op(), "agtest::lies.default");
    expect_parts(error.what(), {"kernel_errors_test.cpp:", "agtest::lies"});
  }
}

TEST(KernelErrors, UnderNoGradAndOnAnotherThread) {
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& i) { return x.index_select(0, i).sin(); });
  const auto x = leaf({4}), i = at::tensor({9});
  std::string text;
  std::thread([&] {
    const at::NoGradGuard no_grad;
    text = thrown_by([&] { step(x, i); }).text;
  }).join();
  expect_parts(text, {"aten::index_select", "kernel_errors_test.cpp:"});
  EXPECT_TRUE(same_bits(step(x, at::tensor({1})), x.index_select(0, at::tensor({1})).sin()));
}

// ---- in a backward pass -------------------------------------------------------------------------

TEST(KernelErrors, InABackwardPassNameTheForwardsLine) {
  int line = 0;
  auto step = antegrad::compile([&](const at::Tensor& x) {
    const auto y = x.sin();
    line = __LINE__ + 1;
    const auto z = doubled(y);
    return z.cos().sum();
  });
  const auto x = leaf({3});
  const auto loss = step(x);
  Thrown found;
  {
    const Fault::Scope fault(Fault::backward, make<std::out_of_range>("no luck"));
    found = thrown_by([&] { loss.backward(); });
  }
  EXPECT_EQ(found.type, typeid(std::out_of_range).name());
  expect_parts(found.text, {"no luck", "agfail::doubled_backward", "'step.backward'",
                            "from kernel_errors_test.cpp:" + std::to_string(line)});
  EXPECT_FALSE(x.grad().defined());
}

TEST(KernelErrors, InABackwardPassLeaveTheNextCallAlone) {
  const auto fn = [](const at::Tensor& x, const at::Tensor& w) {
    return (doubled(x.sin() * w).tanh() * w).sum();
  };
  auto step = antegrad::compile(fn);
  const auto x = leaf({3}), w = leaf({3});
  const auto version = x._version();
  {
    const auto loss = step(x, w);
    const Fault::Scope fault(Fault::backward, make<std::runtime_error>("no luck"));
    EXPECT_THROW(loss.backward(), std::runtime_error);
  }
  EXPECT_FALSE(x.grad().defined() || w.grad().defined());
  EXPECT_EQ(x._version(), version);
  step(x, w).backward();
  const auto e = clone_all({x, w});
  fn(e[0], e[1]).backward();
  EXPECT_TRUE(same_bits(List{x.grad(), w.grad()}, List{e[0].grad(), e[1].grad()}));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(KernelErrors, ARetainedBackwardCanBeTriedAgainAnotherCannot) {
  auto step = antegrad::compile([](const at::Tensor& x) { return doubled(x.sin()).tanh().sum(); });
  const auto x = leaf({3});
  const auto fails = [&](const at::Tensor& loss, bool retain) {
    const Fault::Scope fault(Fault::backward, make<std::runtime_error>("no luck"));
    EXPECT_THROW(loss.backward({}, retain), std::runtime_error);
  };
  const auto e = clone_all({x})[0];
  doubled(e.sin()).tanh().sum().backward();

  auto loss = step(x);
  fails(loss, true);
  loss.backward();
  EXPECT_TRUE(same_bits(x.grad(), e.grad()));

  loss = step(x);
  fails(loss, false);
  EXPECT_THROW(loss.backward(), BackwardError);
  EXPECT_THROW(loss.backward({}, true), BackwardError);
  EXPECT_TRUE(same_bits(x.grad(), e.grad()));
}

TEST(KernelErrors, OfLibtorchAndOfOpaqueCodeInABackwardPass) {
  auto step = antegrad::compile([](const at::Tensor& x) { return opaque(picky(), {x * 1})[0]; });
  const auto x = at::full({3}, 7.0f).set_requires_grad(true);
  const auto loss = step(x).sum();
  try {
    loss.backward();
    ADD_FAILURE() << "nothing thrown";
  } catch (const c10::IndexError& error) {
    expect_parts(error.what_without_backtrace(),
                 {"half too much", "\"picky\"", "antegrad::opaque_backward", "'step.backward'",
                  "kernel_errors_test.cpp:"});
  }
  EXPECT_FALSE(x.grad().defined());
}

TEST(KernelErrors, AVersionErrorDoesNotFreeWhatIsSaved) {
  const auto w = leaf({3});
  auto step = antegrad::compile([&](const at::Tensor& x) { return (x * w).sin().sum(); });
  const auto x = leaf({3});
  const auto loss = step(x);
  {
    const at::NoGradGuard no_grad;
    w.add_(1);
  }
  const auto first = thrown_by([&] { loss.backward(); });
  expect_parts(first.text, {"modified by an inplace operation"});
  EXPECT_EQ(thrown_by([&] { loss.backward(); }).text.substr(0, 60), first.text.substr(0, 60));
}

}  // namespace kernel_errors_test
}  // namespace antegrad::testing
