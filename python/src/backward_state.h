#pragma once

/// \file
/// antegrad.BackwardState.

#include <torch/extension.h>

namespace antegrad::python {

void add_backward_state(py::module_& module);

}  // namespace antegrad::python
