#pragma once

/// \file
/// antegrad.compiled_backward: backward passes that start in Python.

#include <torch/extension.h>

namespace antegrad::python {

void add_backward(py::module_& module);

}  // namespace antegrad::python
