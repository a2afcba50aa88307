#pragma once

/// \file
/// The containers of structures, by number.

#include <c10/util/SmallVector.h>
#include <torch/extension.h>

#include <unordered_map>

namespace antegrad::python {

/// Containers in the order in which structures that belong together are taken apart, and in the
/// same order when they are put together. A container that is met again is written as its number:
/// it is one object on the other side too. Owns them. With the GIL.
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

}  // namespace antegrad::python
