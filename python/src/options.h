#pragma once

/// \file
/// Options from Python's keyword arguments.

#include <antegrad/options.h>
#include <torch/extension.h>

namespace antegrad::python {

/// `given` by name over the defaults. Throws OptionError, which names the nearest name or the values there are, for an
/// unknown name and a value of a wrong type.
Options options_from(const py::dict& given);

}  // namespace antegrad::python
