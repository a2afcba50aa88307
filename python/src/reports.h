#pragma once

/// \file
/// Report and its parts in Python.

#include <torch/extension.h>

namespace antegrad::python {

void add_reports(py::module_& module);

}  // namespace antegrad::python
