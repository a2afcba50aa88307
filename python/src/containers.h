#pragma once

/// \file
/// The containers in structures, by number.

#include <c10/util/SmallVector.h>
#include <torch/extension.h>

#include <unordered_map>

namespace antegrad::python {

/// Owns containers in the order in which related structures are flattened; unflattening visits them
/// in the same order. A container that occurs again is written as its number, so that it is one
/// object on the other side too. Needs the GIL.
class Containers {
 public:
  size_t size() const { return objects_.size(); }
  const py::object& operator[](size_t number) const { return objects_[number]; }
  /// The number of a container, or -1.
  int64_t find(py::handle object) const;
  void add(py::object object);
  /// Forgets all but the first `size` containers.
  void shrink(size_t size);

 private:
  static constexpr size_t kScanned = 16;  // below this size, a linear search is faster than hashing
  c10::SmallVector<py::object, 8> objects_;
  std::unordered_map<PyObject*, int64_t> numbers_;  // empty while a linear search does
};

}  // namespace antegrad::python
