#include "support/parity.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "support/options.h"

namespace antegrad::testing {
namespace {

constexpr uint64_t kParitySeed = 20240711;

std::vector<at::Tensor> gradients(const torch::nn::Module& module) {
  std::vector<at::Tensor> grads;
  for (const auto& p : module.parameters()) grads.push_back(p.grad());
  return grads;
}

using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

// One of the two trainees.
struct Runner {
  Trainee trainee;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Loss loss;

  Runner(Trainee t, c10::Device device) : trainee(std::move(t)), loss(trainee.loss) {
    trainee.module->to(device);
    optimizer = trainee.optimizer(*trainee.module);
  }

  at::Tensor step(const Batch& batch) {
    optimizer->zero_grad();
    auto result = loss(batch.x, batch.y);
    result.backward();
    optimizer->step();
    return result.detach();
  }
};

}  // namespace

void expect_training_parity(const std::function<Trainee()>& make,
                            const std::function<Batch(int)>& batch, int steps, c10::Device device) {
  const TestedHooks hooks;
  torch::manual_seed(kParitySeed);
  Runner eager(make(), device);
  torch::manual_seed(kParitySeed);
  Runner compiled(make(), device);
  const auto& expected = *eager.trainee.module;
  const auto& found = *compiled.trainee.module;
  ASSERT_TRUE(same_bits(expected.parameters(), found.parameters()));
  const auto loss = [loss = compiled.trainee.loss](const at::Tensor& x, const at::Tensor& y) {
    const TestedBlock block;
    return loss(x, y);
  };
  auto step = antegrad::compile(compiled.trainee.module, loss, tested_options());
  compiled.loss = [&](const at::Tensor& x, const at::Tensor& y) { return step(x, y); };
  auto state = generator_state(device);
  for (int i = 0; i < steps; ++i) {
    auto b = batch(i);
    b = {b.x.to(device), b.y.to(device)};
    set_generator_state(state, device);
    const auto expected_loss = eager.step(b);
    const auto expected_state = generator_state(device);
    set_generator_state(state, device);
    const auto found_loss = compiled.step(b);
    state = generator_state(device);
    ASSERT_TRUE(same_bits(expected_loss, found_loss)) << "loss of step " << i;
    ASSERT_TRUE(same_bits(gradients(expected), gradients(found))) << "gradients of step " << i;
    ASSERT_TRUE(same_bits(expected.parameters(), found.parameters()))
        << "parameters after step " << i;
    ASSERT_TRUE(same_bits(expected.buffers(), found.buffers())) << "buffers after step " << i;
    ASSERT_TRUE(same_bits(expected_state, state)) << "generator after step " << i;
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.compiled_calls, steps);
  EXPECT_EQ(capture::live_stand_ins(), 0);
}

namespace {

// The observable outcome of one call.
struct Outcome {
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> inputs;
  std::vector<bool> requires_grad;
  at::Tensor generator;
};

Outcome observe(const Function& fn, const std::vector<at::Tensor>& inputs) {
  Outcome outcome;
  torch::manual_seed(kParitySeed);
  outcome.inputs = clone_all(inputs);
  const auto results = fn(outcome.inputs);
  std::vector<at::Tensor> roots, tangents, leaves;
  for (const auto& r : results) {
    outcome.requires_grad.push_back(r.defined() && r.requires_grad());
    outcome.results.push_back(r.defined() ? r.detach().clone() : r);
  }
  outcome.generator = generator_state();
  torch::manual_seed(kParitySeed + 1);
  for (const auto& r : results) {
    if (!r.defined() || !r.requires_grad() || !r.grad_fn()) continue;
    roots.push_back(r);
    tangents.push_back(at::randn_like(r, at::MemoryFormat::Contiguous));
  }
  for (const auto& i : outcome.inputs) {
    if (i.defined() && i.requires_grad()) leaves.push_back(i);
  }
  if (!roots.empty() && !leaves.empty()) {
    outcome.gradients = torch::autograd::grad(roots, leaves, tangents, std::nullopt, false, true);
  }
  return outcome;
}

void expect_same(const Outcome& eager, const Outcome& compiled) {
  EXPECT_TRUE(same_bits(eager.results, compiled.results)) << "results";
  EXPECT_TRUE(same_bits(eager.gradients, compiled.gradients)) << "gradients";
  EXPECT_TRUE(same_bits(eager.inputs, compiled.inputs)) << "inputs after the call";
  EXPECT_EQ(eager.requires_grad, compiled.requires_grad);
  EXPECT_TRUE(same_bits(eager.generator, compiled.generator)) << "generator";
}

}  // namespace

Report expect_function_parity(const Function& fn, const std::vector<at::Tensor>& inputs) {
  return expect_parity_of_calls(fn, {inputs}, 1);
}

Report expect_parity_of_calls(const Function& fn, const std::vector<std::vector<at::Tensor>>& calls,
                              size_t programs) {
  const TestedHooks hooks;
  auto step = antegrad::compile(fn, tested_options());
  std::vector<Outcome> eager;
  for (const auto& inputs : calls) eager.push_back(observe(fn, inputs));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < calls.size(); ++i) {
      SCOPED_TRACE("call " + std::to_string(i) + " of round " + std::to_string(round));
      expect_same(eager[i], observe([&](const auto& in) { return step(in); }, calls[i]));
    }
  }
  const auto report = step.report();
  EXPECT_EQ(report.eager_calls, 0);
  EXPECT_EQ(report.programs.size(), programs);
  EXPECT_EQ(capture::live_stand_ins(), 0);
  return report;
}

}  // namespace antegrad::testing
