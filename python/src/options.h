#pragma once

/// \file
/// Options from Python values, and antegrad.config.

#include <antegrad/options.h>
#include <torch/extension.h>

#include <string>

namespace antegrad::python {

/// Options by name: `given` overrides `defaults`. The compiled function is called `name` unless
/// either sets one. Throws OptionError for an unknown name or an invalid value, with the closest
/// names or the valid values.
Options options_from(const py::dict& given, const std::string& name, const Options& defaults);

/// Adds the functions that python/antegrad/config.py uses.
void add_config(py::module_& module);

}  // namespace antegrad::python
