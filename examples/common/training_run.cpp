#include "common/training_run.h"

#include <ATen/CPUGeneratorImpl.h>
#include <antegrad/error.h>
#include <torch/utils.h>

namespace antegrad::examples {
namespace {

at::Generator default_generator() { return at::detail::getDefaultCPUGenerator(); }

Gpt seeded_model(const TrainingSettings& settings) {
  torch::manual_seed(settings.seed);
  return Gpt(settings.model);
}

}  // namespace

TrainingRun::TrainingRun(std::string name, const TrainingSettings& settings,
                         const std::optional<Options>& options)
    : name(std::move(name)),
      model_(seeded_model(settings)),
      optimizer_(
          model_->parameters(),
          torch::optim::AdamWOptions(settings.learning_rate).weight_decay(settings.weight_decay)),
      loss_([this](const at::Tensor& x, const at::Tensor& y) { return model_->loss(x, y); }),
      compiled_loss_(compile(model_, loss_, options.value_or(Options()))),
      step_(options ? Loss(compiled_loss_) : loss_) {
  generator_state = default_generator().get_state();
}

void TrainingRun::train_step(const Batch& batch) {
  default_generator().set_state(generator_state);
  const Stopwatch watch;
  optimizer_.zero_grad();
  const auto loss = step_(batch.inputs, batch.targets);
  loss.backward();
  optimizer_.step();
  losses.push_back(loss.item<double>());
  step_ms.push_back(watch.milliseconds());
  generator_state = default_generator().get_state();
  tokens.add(static_cast<double>(batch.inputs.numel()), step_ms.back() / 1e3);
}

StepMemory TrainingRun::measure_step(const Batch& batch) {
  clear_gradients(*model_);
  return measure_memory([&] { return step_(batch.inputs, batch.targets); });
}

FeasibleBudget feasible_budget(const TrainingSettings& settings, const Batch& batch,
                               int64_t bytes) {
  auto model = seeded_model(settings);
  auto loss = compile(
      model, [&](const at::Tensor& x, const at::Tensor& y) { return model->loss(x, y); },
      Options().with_memory_budget(bytes));
  try {
    loss.warmup(batch.inputs, batch.targets);
  } catch (const BudgetError& error) {
    return {error.smallest_bytes(), true};
  }
  return {bytes, false};
}

}  // namespace antegrad::examples
