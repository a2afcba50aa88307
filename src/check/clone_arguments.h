#pragma once

/// \file
/// Copies of a call's arguments for a trial run: in other memory, with the same relations.
///
/// Copies share memory if the originals do, and a view of a base becomes a view of the base's copy.
/// A leaf that requires grad stays a leaf; a tensor with a history gets one that ends in a new
/// leaf.

#include <unordered_set>
#include <vector>

#include "check/trial_state.h"

namespace antegrad::check {

struct ClonedArguments {
  std::vector<at::Tensor> leaves;    ///< in the order of the arguments
  std::vector<NamedTensor> targets;  ///< leaves to compute gradients for, named after the arguments
};

/// Tensors whose storage is in `keep` are used as they are instead of copied.
ClonedArguments clone_arguments(const std::vector<at::Tensor>& arguments,
                                const std::unordered_set<const c10::StorageImpl*>& keep);

}  // namespace antegrad::check
