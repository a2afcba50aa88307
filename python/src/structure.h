#pragma once

/// \file
/// Python structures as arguments and results of compiled functions.
///
/// Any nesting of tuples, named tuples, lists and dictionaries over tensors, None, numbers, strings and a few
/// immutable values (torch.dtype, torch.device, slices, enumerators, ...) is taken apart into tensors, which are inputs or
/// outputs of the captured graph, and host values, which are constants of a program.

#include <antegrad/tree.h>
#include <torch/extension.h>

namespace antegrad::python {

/// Appends the leaves of `value`. With the GIL. Throws py::type_error for a value that is none of the above.
void flatten(py::handle value, Leaves& leaves);

/// The next structure that the reader holds. With the GIL.
py::object unflatten(LeafReader& reader);

}  // namespace antegrad::python
