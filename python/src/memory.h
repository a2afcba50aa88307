#pragma once

/// \file
/// What programs keep of the CPU's memory between calls (antegrad/memory.h).

#include <torch/extension.h>

namespace antegrad::python {

void add_memory(py::module_& module);

}  // namespace antegrad::python
