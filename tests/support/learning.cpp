#include "support/learning.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>

#include "support/long_tests.h"
#include "support/options.h"

namespace antegrad::testing {
namespace {

constexpr uint64_t kLearningSeed = 20241103;

void append_state(const torch::optim::OptimizerParamState& state, List& out) {
  if (const auto* s = dynamic_cast<const torch::optim::SGDParamState*>(&state)) {
    out.push_back(s->momentum_buffer());
  } else if (const auto* s = dynamic_cast<const torch::optim::AdamParamState*>(&state)) {
    out.insert(out.end(), {s->exp_avg(), s->exp_avg_sq(), at::tensor(s->step())});
  } else if (const auto* s = dynamic_cast<const torch::optim::AdamWParamState*>(&state)) {
    out.insert(out.end(), {s->exp_avg(), s->exp_avg_sq(), at::tensor(s->step())});
  } else {
    ADD_FAILURE() << "an optimizer whose state this test does not know";
  }
}

// The optimizer state of every parameter; undefined if it has none yet.
List optimizer_state(const Learner& learner) {
  List out;
  for (const auto& optimizer : learner.optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      for (const auto& p : group.params()) {
        const auto it = optimizer->state().find(p.unsafeGetTensorImpl());
        if (it == optimizer->state().end()) {
          out.emplace_back();
        } else {
          append_state(*it->second, out);
        }
      }
    }
  }
  return out;
}

List gradients(const Learner& learner) {
  List out;
  for (const auto& p : learner.module->parameters()) out.push_back(p.grad());
  return out;
}

std::vector<std::vector<int64_t>> strides(const List& tensors) {
  std::vector<std::vector<int64_t>> out;
  for (const auto& t : tensors) {
    out.push_back(t.defined() ? t.strides().vec() : std::vector<int64_t>{-1});
  }
  return out;
}

void expect_same(const Learner& expected, const Learner& found) {
  ASSERT_TRUE(same_bits(gradients(expected), gradients(found))) << "gradients";
  ASSERT_EQ(strides(gradients(expected)), strides(gradients(found))) << "strides of gradients";
  ASSERT_TRUE(same_bits(expected.module->parameters(), found.module->parameters())) << "parameters";
  ASSERT_TRUE(same_bits(expected.module->buffers(), found.module->buffers())) << "buffers";
  ASSERT_TRUE(same_bits(optimizer_state(expected), optimizer_state(found))) << "optimizers";
}

}  // namespace

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto device : devices()) {
    for (const auto dtype : {at::kFloat, at::kDouble}) all.push_back({device, dtype});
  }
  return all;
}

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  return std::string(info.param.device.is_cpu() ? "Cpu" : "Cuda") + c10::toString(info.param.dtype);
}

StepData::StepData(const Setting& setting, int step)
    : setting_(setting), generator_(at::globalContext().defaultGenerator(at::kCPU).clone()) {
  generator_.set_current_seed(static_cast<uint64_t>(1000 + step));
}
at::Tensor StepData::normal(at::IntArrayRef sizes) {
  return at::randn(sizes, generator_, at::kDouble).to(setting_.device, setting_.dtype);
}
at::Tensor StepData::uniform(at::IntArrayRef sizes) {
  return at::rand(sizes, generator_, at::kDouble).to(setting_.device, setting_.dtype);
}
at::Tensor StepData::integers(int64_t limit, at::IntArrayRef sizes) {
  return at::randint(limit, sizes, generator_).to(setting_.device);
}

Learner simple_learner(std::shared_ptr<torch::nn::Module> module, Function function,
                       std::shared_ptr<torch::optim::Optimizer> optimizer, Setting setting,
                       std::function<List(StepData)> data) {
  auto step = [optimizer, setting, data](const std::vector<Function>& functions, int i) {
    optimizer->zero_grad();
    auto results = functions[0](data(StepData(setting, i)));
    results[0].backward();
    optimizer->step();
    return results;
  };
  return {std::move(module), {std::move(function)}, {optimizer}, std::move(step)};
}

void expect_learning_parity(const std::function<Learner(const Setting&)>& make,
                            const Setting& setting, LearningOptions options) {
  const DeterministicKernels deterministic(setting.device);
  const TestedHooks hooks;
  torch::manual_seed(kLearningSeed);
  const auto eager = make(setting);
  torch::manual_seed(kLearningSeed);
  const auto compiled = make(setting);
  ASSERT_TRUE(same_bits(eager.module->parameters(), compiled.module->parameters()));

  std::vector<Compiled<Function>> steps;
  std::vector<Function> functions;
  for (const auto& function : compiled.functions) {
    const Function body = [function](const List& in) {
      const TestedBlock block;
      return function(in);
    };
    steps.push_back(antegrad::compile(compiled.module, body, tested_options()));
    functions.emplace_back([step = steps.back()](const List& in) mutable { return step(in); });
  }
  auto state = generator_state(setting.device);
  if (long_tests()) options.steps = std::max(options.steps, 20);
  for (int i = 0; i < options.steps; ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    set_generator_state(state, setting.device);
    const auto expected = eager.step(eager.functions, i);
    const auto expected_state = generator_state(setting.device);
    set_generator_state(state, setting.device);
    const auto found = compiled.step(functions, i);
    state = generator_state(setting.device);
    ASSERT_TRUE(same_bits(expected, found)) << "results";
    ASSERT_NO_FATAL_FAILURE(expect_same(eager, compiled));
    ASSERT_TRUE(same_bits(expected_state, state)) << "generator";
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto report = steps[i].report();
    EXPECT_EQ(report.eager_calls, 0);
    EXPECT_GE(report.compiled_calls, options.steps);
    EXPECT_EQ(report.programs.size(), options.programs.empty() ? 1 : options.programs.at(i))
        << ::testing::PrintToString(report.recompiles);
  }
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

DeterministicKernels::DeterministicKernels(c10::Device device)
    : algorithms_(at::globalContext().deterministicAlgorithms()),
      warn_only_(at::globalContext().deterministicAlgorithmsWarnOnly()),
      cudnn_(at::globalContext().deterministicCuDNN()) {
  if (device.is_cpu()) return;
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicCuDNN(true);
}
DeterministicKernels::~DeterministicKernels() {
  at::globalContext().setDeterministicAlgorithms(algorithms_, warn_only_);
  at::globalContext().setDeterministicCuDNN(cudnn_);
}

}  // namespace antegrad::testing
