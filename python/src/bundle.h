#pragma once

/// \file
/// Plans and kernels of a process in a file (antegrad/bundle.h).

#include <torch/extension.h>

namespace antegrad::python {

void add_bundle(py::module_& module);

}  // namespace antegrad::python
