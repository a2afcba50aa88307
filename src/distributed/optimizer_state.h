#pragma once

/// \file
/// The state that libtorch's optimizers keep of each parameter: tensors of the parameter's size,
/// and numbers.

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace antegrad::distributed {

using ParameterState = torch::optim::OptimizerParamState;

struct StateParts {
  std::vector<std::pair<std::string, at::Tensor*>> tensors;
  std::vector<std::pair<std::string, int64_t*>> numbers;
};

/// "AdamW", ...; empty for an optimizer that is not known.
std::string kind_of(const torch::optim::Optimizer& optimizer);
/// A new state of a parameter of such an optimizer.
std::unique_ptr<ParameterState> new_state(const torch::optim::Optimizer& optimizer);
/// The parts of a state; none for an unknown one.
StateParts parts_of(ParameterState& state);

}  // namespace antegrad::distributed
