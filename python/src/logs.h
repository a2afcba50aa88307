#pragma once

/// \file
/// Logs and structured traces, and what forwards them to Python's logging and torch's traces.

#include <torch/extension.h>

namespace antegrad::python {

void add_logs(py::module_& module);

}  // namespace antegrad::python
