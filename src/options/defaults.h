#pragma once

/// \file
/// Sources of default options.

#include <functional>

#include <antegrad/options.h>

namespace antegrad {

/// Null if the environment has no such variable.
using Environment = std::function<const char*(const char* variable)>;

/// Options{} with the values in `environment`. Throws OptionError for a bad value, and names the
/// variable.
Options options_from(const Environment& environment);

/// The defaults of the process, read on first use.
const Options& environment_options();

/// Changes what default_options() returns, atomically for all threads. If `change` throws, the
/// defaults stay as they were.
void update_default_options(const std::function<void(Options& options)>& change);

}  // namespace antegrad
