#pragma once

/// \file
/// antegrad's errors as Python exceptions.

#include <torch/extension.h>

namespace antegrad::python {

/// Adds the exception classes, with the hierarchy of antegrad/error.h, and translates C++ errors to
/// them, those of backward passes included. `Error` is a RuntimeError, like libtorch's errors.
void add_errors(py::module_& module);

}  // namespace antegrad::python
