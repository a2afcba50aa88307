#pragma once

/// \file
/// Reads private members of torch::nn::Module: its parameters and buffers in place, without
/// copying dictionaries.

#include <torch/nn/module.h>

namespace antegrad::torch_compat {

using TensorSlots = torch::OrderedDict<std::string, at::Tensor>;
using ChildSlots = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

/// The module's own parameters and buffers, without those of children. References live as long as
/// the module.
const TensorSlots& parameter_slots(const torch::nn::Module& module);
const TensorSlots& buffer_slots(const torch::nn::Module& module);
const ChildSlots& child_slots(const torch::nn::Module& module);
/// The flag that train() and eval() set; unlike is_training() it is not virtual.
const bool& training_flag(const torch::nn::Module& module);

}  // namespace antegrad::torch_compat
