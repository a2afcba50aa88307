#pragma once

/// \file
/// User-defined passes over joint graphs, written in Python.

#include <torch/extension.h>

namespace antegrad::python {

void add_passes(py::module_& module);

}  // namespace antegrad::python
