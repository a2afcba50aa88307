#pragma once

/// \file
/// Runs a program eagerly and through the code under test, and compares the outcomes.

#include <functional>

#include "verdict.h"
#include "world.h"

namespace antegrad::fuzz {

using Callable = std::function<List(const List& arguments, const std::vector<int64_t>& flags)>;

/// The code under test, used in place of a callable.
struct Subject {
  Callable call;
  std::function<int64_t()> eager_calls;  ///< how many calls ran the callable as it is
  /// What is done around a call, and around the eager one; null for nothing.
  std::function<Callable(Callable)> around = {};
};
using Compile = std::function<Subject(const Program&, const Callable&)>;

/// antegrad::compile.
Subject compiled(const Program& program, const Callable& callable);
/// The callable as it is, with CompiledBackward around its backward passes. Calls whose passes did
/// not run as programs, although libtorch shows all formulas, count as eager.
Subject with_compiled_backward(const Program& program, const Callable& callable);
/// antegrad::compile, with CompiledBackward around the backward passes.
Subject compiled_with_compiled_backward(const Program& program, const Callable& callable);
/// antegrad::compile with higher derivatives. Gradients of some arguments, made with create_graph
/// outside of the callable, are further results.
Subject compiled_for_derivatives(const Program& program, const Callable& callable);
/// Of all programs so far that were run so: nodes of backward passes, and those that programs
/// computed.
struct BackwardNodes {
  int64_t all = 0, compiled = 0;
};
BackwardNodes& backward_nodes();
/// Programs whose regions were part of such passes.
int64_t& backward_regions();

Verdict check(const Program& program, const Compile& compile);

/// The smallest program, found by removing and simplifying, whose verdict is of the same kind (and,
/// for errors, begins with the same words).
Program shrink(Program program, const Compile& compile);
/// The same for any property.
Program shrink(Program program, const std::function<bool(const Program&)>& keeps);

}  // namespace antegrad::fuzz
