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

#include "antegrad/tree.h"
#include "guards/origin.h"

namespace antegrad::check {

struct EagerCheck {
  std::string name;              ///< of the compiled callable
  const guards::Origin& origin;  ///< of the program
  const Leaves& arguments;       ///< of the call
  std::function<Leaves(const Leaves&)> eager;
  std::function<Leaves(const Leaves&)> program;

  /// Compares results, their strides and requires_grad, host values, arguments and held tensors
  /// afterwards, generators, and gradients for fixed random tangents. Throws MismatchError at the
  /// first difference; what `eager` or `program` throws passes.
  void run() const;
};

}  // namespace antegrad::check
