#pragma once

/// \file
/// Python structures as arguments and results of compiled functions.
///
/// A structure is any nesting of tuples, named tuples, lists, dictionaries, dataclasses and types registered with
/// torch.utils._pytree over tensors, None, numbers, strings and a few immutable values (torch.dtype, torch.device, slices,
/// enumerators, ...). It is taken apart into tensors, which are inputs or outputs of the captured graph, and host values,
/// which are constants of a program.

#include <antegrad/tree.h>
#include <c10/util/SmallVector.h>
#include <torch/extension.h>

#include <string>
#include <unordered_map>

namespace antegrad::python {

/// Containers in the order in which structures that belong together are taken apart, and in the same order when they are put
/// together. A container that is met again is written as its number: it is one object on the other side too. Owns them.
/// With the GIL.
class Containers {
 public:
  size_t size() const { return objects_.size(); }
  const py::object& operator[](size_t number) const { return objects_[number]; }
  /// The number of a container, or -1.
  int64_t find(py::handle object) const;
  void add(py::object object);
  /// Forgets all but the first `size`.
  void shrink(size_t size);

 private:
  static constexpr size_t kScanned = 16;  // a search through so few is faster than a hash
  c10::SmallVector<py::object, 8> objects_;
  std::unordered_map<PyObject*, int64_t> numbers_;  // empty while a search does
};

/// "an object of type module.Name"
std::string type_text(py::handle object);

/// flatten() met a value that is no structure.
struct Unsupported {
  py::object object;
};

/// Appends the leaves of `value`. With the GIL. Throws Unsupported, and what a registered type's function throws.
void flatten(py::handle value, Containers& seen, Leaves& leaves);
/// The next structure that the reader holds. With the GIL.
py::object unflatten(LeafReader& reader, Containers& seen);

/// The same for what is in a container, which is not numbered itself: a new object of its type is read.
void flatten_contents(py::handle container, Containers& seen, Leaves& leaves);
py::object unflatten_contents(LeafReader& reader, Containers& seen);

}  // namespace antegrad::python
