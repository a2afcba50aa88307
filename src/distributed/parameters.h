#pragma once

/// \file
/// The parameters and buffers of a module that ranks share.

#include <antegrad/process_group.h>

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/layout.h"

namespace torch::nn {
class Module;
}

namespace antegrad::distributed {

using Named = std::pair<std::string, at::Tensor>;

/// Throws InputError if a parameter is no contiguous floating-point leaf with memory of its own,
/// has a gradient, or is on another device than `first`.
void check_parameter(const Named& first, const Named& parameter);

/// The parameters, each once. Throws InputError for those that check_parameter() refuses, or that
/// are sharded or replicated already.
std::vector<Named> whole_parameters(const torch::nn::Module& module);

/// The first rank's buffers become those of all ranks.
void broadcast_buffers(const torch::nn::Module& module, const Mesh& mesh);

}  // namespace antegrad::distributed
