#pragma once

/// \file
/// A Python object that C++ holds.

#include <torch/extension.h>

#include <utility>

namespace antegrad::python {

/// Let go of with the GIL, on whatever thread its last holder dies.
struct HeldObject {
  explicit HeldObject(py::object o) : object(std::move(o)) {}
  ~HeldObject() {
    if (Py_IsInitialized() == 0) {
      object.release();  // the interpreter is gone, and all objects with it
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
