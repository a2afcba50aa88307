#pragma once

/// \file
/// How optimizers of libtorch make a new value of a parameter, and of what they keep of it, from
/// its gradient: their arithmetic, operator by operator, with numbers that a program takes as
/// inputs.

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace torch::optim {
class Optimizer;
class OptimizerOptions;
class OptimizerParamState;
}  // namespace torch::optim

namespace antegrad::step {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;
using Tensors = std::vector<at::Tensor>;

/// One kind of optimizer. Its functions keep nothing and may run on several threads.
struct UpdateRule {
  std::string_view name;  ///< of the class in torch::optim
  bool (*is_for)(const Optimizer& optimizer);
  /// What decides which operators an update calls: host values of a program. `state` is what the
  /// optimizer keeps of a parameter, null before its first step.
  std::vector<HostValue> (*form)(const OptimizerOptions& options, const OptimizerParamState* state);
  /// Steps that the parameter has had.
  int64_t (*steps)(const OptimizerParamState* state);
  /// Numbers of all parameters with these options, and of one that has had `steps` steps: inputs of
  /// a program.
  std::vector<double> (*numbers)(const OptimizerOptions& options);
  std::vector<double> (*numbers_of_step)(const OptimizerOptions& options, int64_t steps);
  /// Tensors of the state: those that there are, or new ones.
  Tensors (*tensors)(const OptimizerOptions& options, const OptimizerParamState* state,
                     const at::Tensor& parameter);
  /// The new value of the parameter, then those of `tensors`. `numbers`: of both kinds, in order.
  Tensors (*update)(const std::vector<HostValue>& form, const at::Tensor& parameter,
                    const at::Tensor& gradient, const Tensors& tensors,
                    const std::vector<at::Scalar>& numbers);
  /// Notes a step in the state, and makes that of `tensors` if there is none.
  void (*note_step)(std::unique_ptr<OptimizerParamState>& state, const Tensors& tensors);
};

/// Null for an optimizer that has no rule.
const UpdateRule* rule_for(const Optimizer& optimizer);

/// "SGD, Adam, AdamW"
std::string names_of_rules();

}  // namespace antegrad::step
