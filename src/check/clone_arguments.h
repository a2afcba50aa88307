#pragma once

/// \file
/// Copies of a call's arguments for a trial run: other memory, the same relations.
///
/// Arguments that share memory have copies that do; a view of a base is a view of the base's copy.
/// A leaf that requires grad is a leaf; what has a history gets one that ends in a leaf of its own.

#include <unordered_set>
#include <vector>

#include "check/trial_state.h"

namespace antegrad::check {

struct ClonedArguments {
  std::vector<at::Tensor> leaves;    ///< in the order of the arguments
  std::vector<NamedTensor> targets;  ///< leaves to take gradients of, named after the arguments
};

/// Tensors whose storage is in `keep` are not copied but stand for themselves.
ClonedArguments clone_arguments(const std::vector<at::Tensor>& arguments,
                                const std::unordered_set<const c10::StorageImpl*>& keep);

}  // namespace antegrad::check
