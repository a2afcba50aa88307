#pragma once

/// \file
/// Where defaults come from.

#include <functional>

#include <antegrad/options.h>

namespace antegrad {

/// Null where the environment has no such variable.
using Environment = std::function<const char*(const char* variable)>;

/// Options{} with the values in `environment`. Throws OptionError, which names the variable, for a bad one.
Options options_from(const Environment& environment);

/// Those of the process, read when they are first asked for.
const Options& environment_options();

/// Changes what default_options() returns, in one step for all threads. What `change` throws leaves it as it was.
void update_default_options(const std::function<void(Options& options)>& change);

}  // namespace antegrad
