#pragma once

/// \file
/// Shorthands for the models of this folder: a module that is only a list of named parts, its
/// optimizers.

#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <string>

#include "support/learning.h"

namespace antegrad::testing {

/// Parts are added with part(); functions hold them by value (module holders are shared pointers).
class Parts {
 public:
  template <class Holder>
  Holder part(const std::string& name, Holder holder) {
    return module_->register_module(name, std::move(holder));
  }
  at::Tensor parameter(const std::string& name, const at::Tensor& value) {
    return module_->register_parameter(name, value);
  }
  at::Tensor buffer(const std::string& name, const at::Tensor& value) {
    return module_->register_buffer(name, value);
  }
  /// Moves everything, parameters in place, so that copies held by functions move too.
  std::shared_ptr<torch::nn::Module> on(const Setting& setting) const {
    module_->to(setting.device, setting.dtype);
    return module_;
  }
  std::shared_ptr<torch::nn::Module> module() const { return module_; }

 private:
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
};

inline std::shared_ptr<torch::optim::Optimizer> sgd(const torch::nn::Module& module) {
  return std::make_shared<torch::optim::SGD>(
      module.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
}
inline std::shared_ptr<torch::optim::Optimizer> adam(const torch::nn::Module& module) {
  return std::make_shared<torch::optim::Adam>(module.parameters(), torch::optim::AdamOptions(1e-2));
}
inline std::shared_ptr<torch::optim::Optimizer> adamw(const torch::nn::Module& module) {
  return std::make_shared<torch::optim::AdamW>(module.parameters(),
                                               torch::optim::AdamWOptions(1e-2));
}

/// A test of one learner in every setting.
class ModelTest : public ::testing::TestWithParam<Setting> {};

#define AG_MODEL_SUITE(Suite)        \
  class Suite : public ModelTest {}; \
  INSTANTIATE_TEST_SUITE_P(Settings, Suite, ::testing::ValuesIn(settings()), setting_name)

}  // namespace antegrad::testing
