#pragma once

/// \file
/// Calls of Python code that is being captured.

#include <torch/extension.h>

namespace antegrad::python {

/// Calls callable(*args, **kwargs). Python frames turn the errors of antegrad and of capture into
/// RuntimeErrors; this function restores their types and adds the line that raised them. Needs the
/// GIL.
py::object call_captured(const py::object& callable, const py::tuple& args,
                         const py::dict& kwargs = {});

}  // namespace antegrad::python
