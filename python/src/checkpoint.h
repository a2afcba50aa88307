#pragma once

/// \file
/// What antegrad.checkpoint needs of the C++ side: tags on what a capture records.

#include <torch/extension.h>

namespace antegrad::python {

/// Adds `capturing()` and the context manager `CheckpointBlock` to the module.
void add_checkpoints(py::module_& module);

}  // namespace antegrad::python
