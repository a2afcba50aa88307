#pragma once

/// \file
/// A Python object that C++ holds.

#include <torch/extension.h>

#include <utility>

namespace antegrad::python {

/// Releases the object under the GIL, on whichever thread drops the last reference.
struct HeldObject {
  explicit HeldObject(py::object o) : object(std::move(o)) {}
  ~HeldObject() {
    if (Py_IsInitialized() == 0) {
      object.release();  // the interpreter and all its objects are gone
      return;
    }
    const py::gil_scoped_acquire gil;
    object = py::object();
  }
  HeldObject(const HeldObject&) = delete;
  HeldObject& operator=(const HeldObject&) = delete;

  py::object object;
};

}  // namespace antegrad::python
