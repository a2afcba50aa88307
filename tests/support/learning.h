#pragma once

/// \file
/// Whole training loops, compiled against eager, to the bit. More general than
/// expect_training_parity: any number of compiled functions, optimizers and results, and a step
/// that the test writes itself.

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

/// Where and in which precision a model learns.
struct Setting {
  c10::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
};
/// Each device of this machine in single and in double precision.
std::vector<Setting> settings();
std::string setting_name(const ::testing::TestParamInfo<Setting>& info);

/// The data of one step: the same for everyone who asks in the same order, whatever models draw.
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

/// A model with all that learns with it. Everything that belongs together hangs on one `module`.
struct Learner {
  std::shared_ptr<torch::nn::Module> module;
  /// What is compiled in one of two learners: inputs to losses and other results.
  std::vector<Function> functions;
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  /// One step by these functions (the learner's own, or compiled): data, forward, backward,
  /// optimizers. Returns what is compared besides the model and the optimizers.
  std::function<List(const std::vector<Function>& functions, int step)> step;
};

/// A learner of one function and one optimizer: zero_grad, backward from the first result, step.
/// The inputs of step i are data(StepData(setting, i)).
Learner simple_learner(std::shared_ptr<torch::nn::Module> module, Function function,
                       std::shared_ptr<torch::optim::Optimizer> optimizer, Setting setting,
                       std::function<List(StepData)> data);

struct LearningOptions {
  int steps = 5;
  std::vector<size_t> programs = {};  ///< how many each compiled function makes; empty: one each
};

/// Two learners made after the same manual_seed take the same steps, one of them compiled. Expects
/// after each step what step() returned, parameters, gradients (with their strides), buffers, the
/// state of optimizers and the generator to be equal to the bit; nothing to have run eagerly; no
/// stand-in to be alive. `make` gets the setting; the module must be there (device and dtype) when
/// it returns.
void expect_learning_parity(const std::function<Learner(const Setting&)>& make,
                            const Setting& setting, LearningOptions options = {});

/// On a GPU: libtorch and cuDNN choose kernels that give the same bits each time, for its lifetime.
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
