#pragma once

/// \file
/// Options from Python's values, and antegrad.config.

#include <antegrad/options.h>
#include <torch/extension.h>

#include <string>

namespace antegrad::python {

/// `given` by name over the defaults; one that neither names gets `name`. Throws OptionError, which
/// names the nearest names or the values there are, for an unknown name and a value that the option
/// cannot have.
Options options_from(const py::dict& given, const std::string& name);

/// Adds what python/antegrad/config.py needs to the module.
void add_config(py::module_& module);

}  // namespace antegrad::python
