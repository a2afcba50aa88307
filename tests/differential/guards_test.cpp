// Changes between two calls that a program must detect.

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <antegrad/config.h>
#include <common/models.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "support/folder.h"
#include "support/parity.h"

namespace antegrad::testing {
namespace guards_test {

class Guards : public ::testing::Test {
 protected:
  Guards() {
    torch::manual_seed(5);
    model = torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                  torch::nn::Dropout(0.5));
    x = at::randn({6, 4});
  }

  auto compile(Options options = {}) {
    return antegrad::compile(
        model, [this](const at::Tensor& in) { return model->forward(in).sin().sum(); }, options);
  }

  // The compiled call equals eager on a fresh copy of the running state; returns the report.
  template <class Step>
  Report expect_equal(Step& step, const at::Tensor& input) {
    const auto buffers = clone_all(model->buffers());
    torch::manual_seed(9);
    const auto expected = model->forward(input).sin().sum();
    const auto moved = clone_all(model->buffers());
    {
      const at::NoGradGuard guard;
      const auto present = model->buffers();
      for (size_t i = 0; i < present.size(); ++i) present[i].copy_(buffers[i]);
    }
    torch::manual_seed(9);
    EXPECT_TRUE(same_bits(expected, step(input)));
    EXPECT_TRUE(same_bits(moved, model->buffers()));
    return step.report();
  }

  torch::nn::Sequential model;
  at::Tensor x;
};

TEST_F(Guards, TheSameCallHitsTheProgram) {
  auto step = compile();
  for (int i = 0; i < 3; ++i) expect_equal(step, x);
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_TRUE(step.report().recompiles.empty());
}

TEST_F(Guards, ANewShapeIsCapturedAnewAndTheOldOneKept) {
  auto step = compile();
  expect_equal(step, x);
  auto report = expect_equal(step, at::randn({3, 4}));
  EXPECT_EQ(report.programs.size(), 2U);
  ASSERT_EQ(report.recompiles.size(), 1U);
  EXPECT_NE(report.recompiles[0].find("sizes [3, 4] instead of [6, 4]"), std::string::npos)
      << report.recompiles[0];
  EXPECT_EQ(expect_equal(step, x).programs.size(), 2U);
}

TEST_F(Guards, EvalAndTrain) {
  auto step = compile();
  expect_equal(step, x);
  model->eval();
  auto report = expect_equal(step, x);
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_NE(report.recompiles.at(0).find("is_training()"), std::string::npos);
  model->train();
  EXPECT_EQ(expect_equal(step, x).programs.size(), 2U);
}

TEST_F(Guards, AReplacedParameter) {
  auto step = compile();
  expect_equal(step, x);
  auto& linear = model[0]->as<torch::nn::LinearImpl>()->weight;
  linear.set_data(at::randn({8, 4}));  // same metadata, other data: the same program
  EXPECT_EQ(expect_equal(step, x).programs.size(), 1U);
  linear.requires_grad_(false);
  auto report = expect_equal(step, x);
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_NE(report.recompiles.at(0).find("requires_grad"), std::string::npos);
}

TEST_F(Guards, AMovedModule) {
  auto step = compile();
  expect_equal(step, x);
  model->to(at::kDouble);
  auto report = expect_equal(step, x.to(at::kDouble));
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_EQ(report.eager_calls, 0);
}

TEST_F(Guards, GradMode) {
  auto step = compile();
  EXPECT_TRUE(step(x).requires_grad());
  const at::NoGradGuard guard;
  EXPECT_FALSE(step(x).requires_grad());
  EXPECT_NE(step.report().recompiles.at(0).find("grad_mode"), std::string::npos);
}

TEST_F(Guards, NewSizesAreAlwaysCompiled) {
  auto step = compile();
  for (int64_t n = 2; n <= 41; ++n) expect_equal(step, at::randn({n, 4}));
  for (int64_t n = 41; n >= 2; --n) expect_equal(step, at::randn({n, 4}));
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 40U);
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.evictions, 0);
}

TEST_F(Guards, TheProgramUsedLeastRecentlyGoes) {
  auto step = compile(Options().with_max_programs(2));
  for (const int64_t n : {2, 3, 2, 4, 2}) expect_equal(step, at::randn({n, 4}));
  auto report = step.report();
  EXPECT_EQ(report.programs.size(), 2U);
  EXPECT_EQ(report.recompiles.size(), 2U);  // 2 stayed
  EXPECT_EQ(report.evictions, 1);
  EXPECT_EQ(report.eager_calls, 0);
  report = expect_equal(step, at::randn({3, 4}));
  EXPECT_EQ(report.recompiles.size(), 3U);  // 3 had gone
}

TEST_F(Guards, ProgramsAreBoundedInBytes) {
  auto step = compile(Options().with_max_program_bytes(1));
  for (int64_t n = 2; n < 6; ++n) expect_equal(step, at::randn({n, 4}));
  const auto report = step.report();
  EXPECT_EQ(report.programs.size(), 1U);
  EXPECT_EQ(report.evictions, 3);
  EXPECT_EQ(report.eager_calls, 0);
}

TEST_F(Guards, AProgramWithAPendingBackwardStays) {
  auto step = compile(Options().with_max_programs(1));
  std::vector<at::Tensor> pending;
  for (int64_t n = 2; n < 5; ++n) pending.push_back(step(at::randn({n, 4})).sum());
  EXPECT_EQ(step.report().programs.size(), 3U);
  for (auto& loss : pending) loss.backward();
  pending.clear();
  step(at::randn({8, 4}));
  EXPECT_EQ(step.report().programs.size(), 1U);
}

// A value that decides something and differs in each call.
TEST(OneOffs, RunEagerlyAfterSixteenAndAreTriedAgain) {
  auto step = antegrad::compile([](const at::Tensor& x, double power) { return x.pow(power); });
  const auto x = at::rand({4});
  const auto call = [&](int i) {
    EXPECT_TRUE(same_bits(step(x, 1.5 + i), x.pow(1.5 + i))) << i;
    return step.report();
  };
  for (int i = 0; i < 16; ++i) EXPECT_EQ(call(i).eager_calls, 0);
  for (int i = 16; i < 79; ++i) EXPECT_EQ(call(i).programs.size(), 16U);
  const auto report = call(79);
  EXPECT_EQ(report.programs.size(), 17U);
  EXPECT_EQ(report.eager_calls, 63);
  EXPECT_NE(report.eager_reasons.begin()->first.find("ran once each"), std::string::npos);
  EXPECT_EQ(call(79).eager_calls, 63);       // has its program now
  EXPECT_EQ(call(80).programs.size(), 18U);  // and paid for it
}

TEST(OneOffs, AreNoMatterOfSizes) {
  auto step = antegrad::compile([](const at::Tensor& x, double power) { return x.pow(power); });
  for (int i = 0; i < 20; ++i) step(at::rand({4}), 1.5 + i);
  const auto before = step.report().eager_calls;
  for (int i = 5; i < 10; ++i) step(at::rand({i}), 1.5);
  EXPECT_EQ(step.report().eager_calls, before);
}

TEST_F(Guards, ResetForgetsProgramsAndWarmupMakesThem) {
  auto step = compile();
  const auto state = generator_state();
  const auto buffers = clone_all(model->buffers());
  step.warmup(x);
  EXPECT_TRUE(same_bits(state, generator_state()));
  EXPECT_TRUE(same_bits(buffers, model->buffers()));
  EXPECT_EQ(step.report().programs.size(), 1U);
  EXPECT_EQ(step.report().compiled_calls, 0);
  step.reset();
  EXPECT_EQ(step.report().programs.size(), 0U);
  expect_equal(step, x);
}

TEST_F(Guards, AModuleByItself) {
  model->eval();
  auto step = antegrad::compile(model);
  EXPECT_TRUE(same_bits(step(x), model->forward(x)));
  EXPECT_EQ(step.report().programs.at(0).lifted_tensors, 6);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(GuardsOfModules, ARegisteredParameterOrBuffer) {
  const auto model = std::make_shared<torch::nn::Module>();
  model->register_parameter("a", at::randn({3}));
  const auto fn = [&](const at::Tensor& in) {
    auto out = in;
    for (const auto& p : model->parameters()) out = out * p.sin();
    return out;
  };
  auto step = antegrad::compile(model, fn);
  const auto in = at::randn({3});
  EXPECT_TRUE(same_bits(step(in), fn(in)));
  model->register_parameter("b", at::randn({3}));
  EXPECT_TRUE(same_bits(step(in), fn(in)));
  EXPECT_NE(step.report().recompiles.at(0).find("registered"), std::string::npos);
  model->register_buffer("c", at::randn({3}));
  EXPECT_TRUE(same_bits(step(in), fn(in)));
  EXPECT_EQ(step.report().programs.size(), 3U);
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(GuardsOfClosures, ATensorWithoutAModuleIsHeldWeakly) {
  auto w = at::randn({3}).set_requires_grad(true);
  const auto x = at::randn({3});
  auto step = antegrad::compile([&](const at::Tensor& in) { return (in * w).sum(); });
  step(x).backward();
  EXPECT_TRUE(same_bits(w.grad(), x));
  w = at::randn({3}).set_requires_grad(true);  // the old one is gone
  step(x).backward();
  EXPECT_TRUE(same_bits(w.grad(), x));
  EXPECT_NE(step.report().recompiles.at(0).find("gone"), std::string::npos);
}

TEST(GuardsOfClosures, HostValuesAndStructures) {
  struct Step {
    at::Tensor operator()(const std::map<std::string, at::Tensor>& in, double scale,
                          const std::optional<at::Tensor>& bias) const {
      auto y = in.at("a") * scale + in.at("b");
      return bias ? y + *bias : y;
    }
  };
  auto step = antegrad::compile(Step());
  const std::map<std::string, at::Tensor> in = {{"a", at::randn({3})}, {"b", at::randn({3})}};
  const std::optional<at::Tensor> bias = at::randn({3});
  EXPECT_TRUE(same_bits(step(in, 2.0, bias), Step()(in, 2.0, bias)));
  EXPECT_TRUE(same_bits(step(in, 3.0, bias), Step()(in, 3.0, bias)));
  const std::optional<at::Tensor> none;
  EXPECT_TRUE(same_bits(step(in, 3.0, none), Step()(in, 3.0, none)));
  EXPECT_EQ(step.report().programs.size(), 3U);
  EXPECT_TRUE(same_bits(step(in, 2.0, bias), Step()(in, 2.0, bias)));
  EXPECT_EQ(step.report().programs.size(), 3U);
}

struct Sample {
  at::Tensor x, y;
  int64_t weight = 1;
};

}  // namespace guards_test
}  // namespace antegrad::testing

template <>
struct antegrad::tree<antegrad::testing::guards_test::Sample>
    : antegrad::tree_of_members<&antegrad::testing::guards_test::Sample::x,
                                &antegrad::testing::guards_test::Sample::y,
                                &antegrad::testing::guards_test::Sample::weight> {};

namespace antegrad::testing {
namespace guards_test {

TEST(GuardsOfClosures, AStructOfOnesOwn) {
  const auto fn = [](const Sample& s) {
    return Sample{s.x * s.weight, (s.x - s.y).abs(), s.weight + 1};
  };
  auto step = antegrad::compile(fn);
  const Sample in{at::randn({3}), at::randn({3}), 4};
  const auto found = step(in);
  const auto expected = fn(in);
  EXPECT_TRUE(same_bits(found.x, expected.x));
  EXPECT_TRUE(same_bits(found.y, expected.y));
  EXPECT_EQ(found.weight, 5);
}

TEST(GuardsOfClosures, AutocastIsCapturedAndGuarded) {
  const auto w = at::randn({4, 4}).set_requires_grad(true);
  const auto fn = [&](const at::Tensor& x) { return x.matmul(w).matmul(w); };
  auto step = antegrad::compile(fn);
  const auto x = at::randn({2, 4});
  EXPECT_TRUE(same_bits(step(x), fn(x)));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const auto expected = fn(x);
  at::autocast::clear_cache();
  const auto found = step(x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(found.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_EQ(step.report().programs.size(), 2U);
}

// The arguments are not views of each other; only their memory shows the overlap.
TEST(GuardsOfMemory, ArgumentsThatShareItAndThenDoNot) {
  for (const bool shared_first : {true, false}) {
    const auto fn = [](const at::Tensor& a, const at::Tensor& b) {
      a.add_(1);
      return b * 2;
    };
    auto step = antegrad::compile(fn);
    for (const bool shared : {shared_first, !shared_first}) {
      const auto a = at::randn({3});
      const auto b = shared ? a.detach() : a.clone();
      const auto expected = (shared ? a + 1 : a) * 2;
      EXPECT_TRUE(same_bits(step(a, b), expected));
    }
    EXPECT_EQ(step.report().programs.size(), 2U);
    EXPECT_NE(step.report().recompiles.at(0).find("share memory"), std::string::npos);
    EXPECT_EQ(step.report().eager_calls, 0);
  }
}

// The backward from all results for all gradients exists after the call.
TEST(UsualBackward, DoesNotCaptureAgain) {
  static int runs;
  runs = 0;
  auto step = antegrad::compile(
      [](const at::Tensor& x, const at::Tensor& w) {
        ++runs;
        return std::pair{(x * w).sin(), w.exp()};
      },
      Options().with_audit(Audit::off));
  const auto x = at::randn({3}).set_requires_grad(true), w = x.detach().clone().requires_grad_();
  const auto [a, b] = step(x, w);
  torch::autograd::backward({a, b}, {at::ones({3}), at::ones({3})});
  EXPECT_EQ(runs, 1);
  const auto [c, d] = step(x, w);
  torch::autograd::backward({c}, {at::ones({3})});  // from one result only
  EXPECT_EQ(runs, 2);
}

TEST(UnusualBackward, SaysHowTheForwardDiffersFromThatOfTheCall) {
  bool flag = false;
  auto step = antegrad::compile(
      [&](const at::Tensor& x) {
        return std::pair{flag ? x.sin() : x.cos(), x.exp()};
      },
      Options().with_audit(Audit::off));
  const auto [a, b] = step(at::randn({3}).set_requires_grad(true));
  flag = true;
  try {
    b.sum().backward();
    FAIL() << "no error";
  } catch (const BackwardError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("another forward than at the call"), std::string::npos) << text;
    EXPECT_LT(text.find("aten::cos"), text.find("aten::sin")) << text;  // was, then is
  }
}

// The region's own history of x does not count as a result computed from x.
TEST(WrittenArguments, ANonLeafBesideAnUnrelatedResult) {
  using List = std::vector<at::Tensor>;
  const auto run = [](auto&& fn) {
    const auto leaf = at::ones({3}).requires_grad_(), w = at::ones({3}).requires_grad_();
    const auto x = leaf * 2;
    const auto results = fn(x, w);
    return torch::autograd::grad(List{(x * results[1]).sum()}, List{x, w, leaf});
  };
  const auto fn = [](const at::Tensor& x, const at::Tensor& w) {
    x.mul_(5);
    const auto y = w.sin();
    return List{y, y * 2};  // one is computed from the other
  };
  auto step = antegrad::compile(fn);
  const auto found = run(step), eager = run(fn);
  EXPECT_TRUE(same_bits(found, eager));
  EXPECT_EQ(step.report().eager_calls, 0);
}

TEST(Donation, SparesWhatTheCallerHolds) {
  const auto fn = [](const at::Tensor& x) {
    const auto y = x * 2;
    return std::pair{y.view(-1).detach(), y.sin()};  // the backward needs y
  };
  const auto x = at::randn({3}).set_requires_grad(true);
  auto step = antegrad::compile(fn);
  const auto [held, result] = step(x);
  result.sum().backward();
  EXPECT_TRUE(same_bits(held, x.detach() * 2));
  EXPECT_TRUE(step.report().programs.at(0).donated.empty());
}

TEST(Donation, ListsWhatTheBackwardMayReuse) {
  auto step = antegrad::compile([](const at::Tensor& x) { return (x * 2).sin() * x.exp(); },
                                Options().with_lowering(Lowering::off));
  step(at::randn({3, 2}).set_requires_grad(true));
  const auto report = step.report();
  // The operands of the product and the input that sin() saved. exp() saved its result, which is
  // one of the operands.
  const auto& donated = report.programs.at(0).donated;
  ASSERT_EQ(donated.size(), 3U);
  const auto has = [&](const char* op) {
    return std::any_of(donated.begin(), donated.end(), [&](const std::string& text) {
      return text.find(op) != std::string::npos && text.find("f32[3, 2]") != std::string::npos;
    });
  };
  EXPECT_TRUE(has("aten::mul.Scalar") && has("aten::sin.default") && has("aten::exp.default"));
  std::ostringstream text;
  text << report;
  EXPECT_NE(text.str().find("3 tensors donated to the backward"), std::string::npos);
}

// A folder for the dumps of one callable.
struct DumpFolder : TemporaryFolder {
  Options options() const {
    Options dumping;
    dumping.dump_dir = path();
    return dumping;
  }
  std::ifstream open(const char* file) const { return std::ifstream(*this / file); }
};

TEST(Dumps, AreNumberedByPassForTheForwardAndForEachBackward) {
  const DumpFolder folder;
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        return std::pair{(x * 2).sin(), x.exp()};
      },
      folder.options());
  const auto dumped = [&](const char* file) { return folder.open(file).good(); };
  const auto x = at::randn({3}).set_requires_grad(true);
  const auto [a, b] = step(x);
  EXPECT_TRUE(dumped("00-capture.agraph"));
  EXPECT_FALSE(dumped("backward-1/00-capture.agraph"));
  a.sum().backward();  // from one result only: another backward, captured now
  EXPECT_TRUE(dumped("backward-1/00-capture.agraph"));
}

TEST(Dumps, EachProgramHasAFolderWithItsOptions) {
  const DumpFolder folder;
  auto step = antegrad::compile([](const at::Tensor& x) { return x.sin(); }, folder.options());
  step(at::randn({3}));
  EXPECT_FALSE(folder.open("program-2/00-capture.agraph").good());
  step(at::randn({4}));
  EXPECT_TRUE(folder.open("program-2/00-capture.agraph").good());
  EXPECT_EQ(load_options(folder / "program-2/options.json").dump_dir, folder.options().dump_dir);
}

TEST(Dumps, ShowWhatTheBackwardReuses) {
  const DumpFolder folder;
  auto step = antegrad::compile(
      [](const at::Tensor& x) {
        const auto shape = at::ones({2}, at::kMeta);
        return (x * shape.size(0)).add_(1).sin();
      },
      folder.options().with_lowering(Lowering::off));
  const auto result = step(at::randn({3}).set_requires_grad(true));
  torch::autograd::backward({result}, {at::ones({3})});
  const auto text = [&](const char* file) {
    auto in = folder.open(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  // The backward owns the tensor that sin() saved, so cos is computed in place.
  EXPECT_NE(text("10-reinplace.agraph").find("aten::cos_.default"), std::string::npos);
  // Queries to Meta kernels are not part of the program.
  EXPECT_NE(text("00-capture.agraph"), "");
  EXPECT_EQ(text("00-capture.agraph").find("meta"), std::string::npos);
  // The usual backward was compiled with the forward.
  EXPECT_EQ(text("backward-1/00-reinplace.agraph"), "");
}

}  // namespace guards_test
}  // namespace antegrad::testing
