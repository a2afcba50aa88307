#pragma once

/// \file
/// What a whole step gives a program besides the arguments of its call: options of the optimizer as
/// numbers, tensors of its state, gradients that were added up.

#include <ATen/core/Tensor.h>
#include <antegrad/tree.h>

#include <vector>

#include "step/arithmetic.h"

namespace antegrad::step {

/// A parameter in one call.
struct Parameter {
  at::Tensor tensor;
  Form form;
  std::vector<double> numbers;  ///< of this step; they follow those of the group
  Tensors state;
  at::Tensor sum = {};   ///< of gradients; undefined where each call updates
  bool has_sum = false;  ///< there were gradients since the last update
};

/// A group of the optimizer, with the numbers that its parameters have in common.
struct Group {
  std::vector<Parameter> parameters;
  std::vector<double> numbers;
};

/// Part of the arguments of a call, in order: the numbers of each group, and those of each of its
/// parameters, its state and its sum.
struct Layout {
  std::vector<Group> groups;
  bool updates = true;  ///< false: gradients are added up alone

  /// Behind `leaves`.
  void append_to(Leaves& leaves) const;

  template <class Visit>
  void each_parameter(Visit visit) const {
    for (const auto& group : groups) {
      for (const auto& parameter : group.parameters) visit(parameter);
    }
  }
};

/// Throws InputError for a parameter of a type for which there is no program.
void check_parameter(const at::Tensor& parameter);

}  // namespace antegrad::step
