#pragma once

/// \file
/// Options::check_against_eager: one call run twice on copies of its arguments, eagerly and by its
/// program, and compared to the bit.
///
/// What the callable holds (parameters, buffers, closure tensors) is used as it is and put back
/// after each of the two runs, as are generators; so nothing is changed when the check ends,
/// however it ends. Nobody else may use these tensors meanwhile.

#include <functional>
#include <string>
#include <vector>

#include "antegrad/tree.h"
#include "check/trial_state.h"
#include "guards/origin.h"

namespace antegrad::check {

struct EagerCheck {
  std::string name;               ///< of the compiled callable
  const Leaves& arguments;        ///< of the call
  std::vector<NamedTensor> held;  ///< what the callable may use besides
  std::vector<NamedGenerator> generators;
  std::function<Leaves(const Leaves&)> eager;
  std::function<Leaves(const Leaves&)> program;

  /// Compares results, their strides and requires_grad, host values, arguments and held tensors
  /// afterwards, generators, and gradients for fixed random tangents. Throws MismatchError at the
  /// first difference; what `eager` or `program` throws passes.
  void run() const;
};

/// What a program of `origin` may use besides the arguments: slots of the module, and what was
/// lifted.
std::vector<NamedTensor> held_tensors(const guards::Origin& origin, const Leaves& arguments);
/// The default generators of the devices in use, and those that the callable passes to operators.
std::vector<NamedGenerator> generators_of(const guards::Origin& origin, const Leaves& arguments);

}  // namespace antegrad::check
