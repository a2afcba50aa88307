#pragma once

/// \file
/// Compiled kernels in a file (antegrad/kernels.h).

#include <torch/extension.h>

namespace antegrad::python {

void add_kernels(py::module_& module);

}  // namespace antegrad::python
