#pragma once

/// \file
/// Python structures as arguments and results of compiled functions.
///
/// A structure is any nesting of tuples, named tuples, lists, dictionaries, dataclasses and types
/// registered with torch.utils._pytree over tensors, None, numbers, strings and a few immutable
/// values (torch.dtype, torch.device, slices, enumerators, ...). It is taken apart into tensors,
/// which are inputs or outputs of the captured graph, and host values, which are constants of a
/// program.

#include <antegrad/tree.h>
#include <torch/extension.h>

#include <string>

#include "containers.h"

namespace antegrad::python {

/// "an object of type module.Name"
std::string type_text(py::handle object);

/// flatten() met a value that is no structure.
struct Unsupported {
  py::object object;
};

/// Appends the leaves of `value`. With the GIL. Throws Unsupported, and what a registered type's
/// function throws.
void flatten(py::handle value, Containers& seen, Leaves& leaves);
/// The next structure that the reader holds. With the GIL.
py::object unflatten(LeafReader& reader, Containers& seen);

/// The same for what is in a container, which is not numbered itself: a new object of its type is
/// read.
void flatten_contents(py::handle container, Containers& seen, Leaves& leaves);
py::object unflatten_contents(LeafReader& reader, Containers& seen);

}  // namespace antegrad::python
