#pragma once

/// \file
/// The partitioner that AOTAutograd can use, for python/antegrad/_partition.py.

#include <torch/extension.h>

namespace antegrad::python {

void add_partition(py::module_& module);

}  // namespace antegrad::python
