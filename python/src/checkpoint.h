#pragma once

/// \file
/// The C++ part of antegrad.checkpoint: tags on recorded nodes.

#include <torch/extension.h>

namespace antegrad::python {

/// Adds `capturing()` and the context manager `CheckpointBlock` to the module.
void add_checkpoints(py::module_& module);

}  // namespace antegrad::python
