#pragma once

/// \file
/// Training runs of a byte-level GPT from one seed, eager or compiled with various options,
/// comparable step by step.

#include <ATen/core/Generator.h>
#include <antegrad/compile.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/measure.h"
#include "common/models.h"
#include "common/progress.h"
#include "common/text_data.h"

namespace antegrad::examples {

struct TrainingSettings {
  GptConfig model{.dropout = 0.1};
  int64_t steps = 250;
  int64_t batch = 8;
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  uint64_t seed = 1;
};

/// The model, its optimizer, and the state of libtorch's generator after the last step of this run.
class TrainingRun {
 public:
  /// Compiled if there are options, otherwise eager. Seeds libtorch's generator.
  TrainingRun(std::string name, const TrainingSettings& settings,
              const std::optional<Options>& options);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  void train_step(const Batch& batch);
  /// Forward and backward without an optimizer step.
  StepMemory measure_step(const Batch& batch);

  std::vector<at::Tensor> parameters() const { return model_->parameters(); }
  Report report() const { return compiled_loss_.report(); }

  std::string name;
  std::vector<double> losses;
  std::vector<double> step_ms;
  at::Tensor generator_state;
  Rate tokens;
  StepMemory memory;  ///< of a step after the last one

 private:
  using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

  Gpt model_;
  torch::optim::AdamW optimizer_;
  Loss loss_;
  Compiled<Loss> compiled_loss_;
  Loss step_;
};

/// The requested memory budget, or the smallest feasible one if that is larger, in bytes. The
/// smallest budget is found on a separate model, which is compiled and not run.
struct FeasibleBudget {
  int64_t bytes = 0;
  bool is_smallest = false;
};
FeasibleBudget feasible_budget(const TrainingSettings& settings, const Batch& batch, int64_t bytes);

}  // namespace antegrad::examples
