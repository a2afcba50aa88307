#pragma once

/// \file
/// Runs a program eagerly and by what is under test, and says whether that is the same.

#include <functional>
#include <string>

#include "world.h"

namespace antegrad::fuzz {

using Callable = std::function<List(const List& arguments, const std::vector<int64_t>& flags)>;

/// What is under test: stands for a callable.
struct Subject {
  Callable call;
  std::function<int64_t()> eager_calls;  ///< how many calls ran the callable as it is
};
using Compile = std::function<Subject(const Program&, const Callable&)>;

/// antegrad::compile.
Subject compiled(const Program& program, const Callable& callable);

struct Verdict {
  /// What differs first, in this order.
  enum class Kind : uint8_t {
    same,
    refused,         ///< a typed refusal, from the call or from backward; everything is as it was
    internal_error,  ///< an error that only a bug can raise
    error,           ///< one raises an error where the other does not
    trace,           ///< a refusal that left something behind
    results,
    inputs,    ///< values after the call
    metadata,  ///< sizes, strides, requires_grad, is_leaf, ...
    aliases,   ///< who is whom, who shares memory, who is whose view
    versions,
    generator,
    gradients,
    later_writes,  ///< writes to results reach others
    eager_call,
    stand_ins,
  };
  Kind kind = Kind::same;
  std::string detail = {};
  bool approximate = false;  ///< gradients were the same only within a tolerance
  bool lenient = false;      ///< a second backward ran that eager refuses

  bool failed() const { return kind != Kind::same && kind != Kind::refused; }
};
const char* to_string(Verdict::Kind kind);

Verdict check(const Program& program, const Compile& compile);

/// The smallest program found by dropping and simplifying whose verdict is of the same kind (and, for
/// errors, begins with the same words).
Program shrink(Program program, const Compile& compile);
/// The same for any property.
Program shrink(Program program, const std::function<bool(const Program&)>& keeps);

}  // namespace antegrad::fuzz
