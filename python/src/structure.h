#pragma once

/// \file
/// Python structures as arguments and results of compiled functions.
///
/// A structure is any nesting of tuples, named tuples, lists, dictionaries, dataclasses and types
/// registered with torch.utils._pytree over tensors, None, numbers, strings and a few immutable
/// values (torch.dtype, torch.device, slices, enumerators, ...). It is flattened into tensors,
/// which are inputs or outputs of the captured graph, and host values, which are constants of a
/// program.

#include <antegrad/tree.h>
#include <torch/extension.h>

#include <string>

#include "containers.h"
#include "numbers.h"

namespace antegrad::python {

/// "an object of type module.Name"
std::string type_text(py::handle object);

/// A value that flatten() does not support.
struct Unsupported {
  py::object object;
};

/// Appends the leaves of `value`. Needs the GIL. Throws Unsupported, and the exceptions of a
/// registered type's function.
/// Numbers that change, as `numbers` knows, are leaves like tensors.
void flatten(py::handle value, Containers& seen, Leaves& leaves, Numbers* numbers = nullptr);
/// Reads the next structure. Needs the GIL.
py::object unflatten(LeafReader& reader, Containers& seen);

/// The same for the contents of a container, which gets no number itself. A new object of its type
/// is read.
void flatten_contents(py::handle container, Containers& seen, Leaves& leaves,
                      Numbers* numbers = nullptr);
py::object unflatten_contents(LeafReader& reader, Containers& seen);

}  // namespace antegrad::python
