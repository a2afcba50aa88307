#pragma once

/// \file
/// Runs of a byte-level GPT from one seed, eager and compiled in one way or another, that can be
/// compared step by step.

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

/// The model, its optimizer, and libtorch's generator as this run left it.
class TrainingRun {
 public:
  /// Compiled where there are options, else eager. Seeds libtorch's generator.
  TrainingRun(std::string name, const TrainingSettings& settings,
              const std::optional<Options>& options);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  void train_step(const Batch& batch);
  /// Forward and backward, no optimizer.
  StepMemory measure_step(const Batch& batch);

  std::vector<at::Tensor> parameters() const { return model_->parameters(); }
  Report report() const { return compiled_loss_.report(); }

  std::string name;
  std::vector<double> losses;
  std::vector<double> step_ms;
  at::Tensor generator_state;
  Rate tokens;
  StepMemory memory;  ///< of a step after the last

 private:
  using Loss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

  Gpt model_;
  torch::optim::AdamW optimizer_;
  Loss loss_;
  Compiled<Loss> compiled_loss_;
  Loss step_;
};

/// The memory budget that is asked for, or the smallest that works where that is more. In bytes;
/// what works is found on a model of its own, compiled and not run.
struct FeasibleBudget {
  int64_t bytes = 0;
  bool is_smallest = false;
};
FeasibleBudget feasible_budget(const TrainingSettings& settings, const Batch& batch, int64_t bytes);

}  // namespace antegrad::examples
