#pragma once

/// \file
/// Calls of Python code that is being captured.

#include <torch/extension.h>

namespace antegrad::python {

/// callable(*args, **kwargs) with the errors of antegrad and of the capture, which become
/// RuntimeErrors on their way through Python frames, as what they were, and the line where they
/// came up. Under the GIL.
py::object call_captured(const py::object& callable, const py::tuple& args,
                         const py::dict& kwargs = {});

}  // namespace antegrad::python
