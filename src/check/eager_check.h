#pragma once

/// \file
/// Options::check_against_eager: runs one call twice on copies of its arguments, eagerly and by its
/// program, and compares bit for bit.
///
/// Tensors that the callable holds (parameters, buffers, closure tensors) are used directly and
/// restored after each run, and so are generators. The check therefore changes nothing, even if it
/// fails. No other thread may use these tensors meanwhile.

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
  /// first difference. Exceptions of `eager` or `program` propagate.
  void run() const;
};

}  // namespace antegrad::check
