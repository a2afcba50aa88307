#pragma once

/// \file
/// Whole training loops, compiled and eager, compared bit for bit. More general than
/// expect_training_parity: any number of compiled functions, optimizers and results, and a custom
/// step.

#include <ATen/Generator.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/parity.h"

namespace antegrad::testing {

using List = std::vector<at::Tensor>;

/// The device and precision of a training run.
struct Setting {
  c10::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
};
/// Each device of this machine in single and in double precision.
std::vector<Setting> settings();
std::string setting_name(const ::testing::TestParamInfo<Setting>& info);

/// The data of one step. The same for all learners that draw in the same order, independent of the
/// draws of models.
class StepData {
 public:
  StepData(const Setting& setting, int step);
  at::Tensor normal(at::IntArrayRef sizes);
  at::Tensor uniform(at::IntArrayRef sizes);
  at::Tensor integers(int64_t limit, at::IntArrayRef sizes);

 private:
  Setting setting_;
  at::Generator generator_;
};

/// A model with its optimizers. All modules are part of one `module`.
struct Learner {
  std::shared_ptr<torch::nn::Module> module;
  /// The functions to compile, from inputs to losses and other results.
  std::vector<Function> functions;
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  /// One step with these functions (the learner's own, or compiled): data, forward, backward,
  /// optimizers. Returns further values to compare.
  std::function<List(const std::vector<Function>& functions, int step)> step;
};

/// A learner of one function and one optimizer: zero_grad, backward from the first result, step.
/// The inputs of step i are data(StepData(setting, i)).
Learner simple_learner(std::shared_ptr<torch::nn::Module> module, Function function,
                       std::shared_ptr<torch::optim::Optimizer> optimizer, Setting setting,
                       std::function<List(StepData)> data);

struct LearningOptions {
  int steps = 5;
  std::vector<size_t> programs = {};  ///< per compiled function; empty: one each
};

/// Trains two learners made after the same manual_seed, one of them compiled. Expects after each
/// step that the results of step(), parameters, gradients (with strides), buffers, optimizer states
/// and the generator are equal bit for bit, that nothing ran eagerly, and that no stand-in is
/// alive. `make` gets the setting and must return a module that has its device and dtype.
void expect_learning_parity(const std::function<Learner(const Setting&)>& make,
                            const Setting& setting, LearningOptions options = {});

/// On a GPU, selects deterministic kernels of libtorch and cuDNN for its lifetime.
class DeterministicKernels {
 public:
  explicit DeterministicKernels(c10::Device device);
  ~DeterministicKernels();
  DeterministicKernels(const DeterministicKernels&) = delete;
  DeterministicKernels& operator=(const DeterministicKernels&) = delete;

 private:
  bool algorithms_, warn_only_, cudnn_;
};

}  // namespace antegrad::testing
