#pragma once

/// \file
/// Report and its parts in Python.

#include <torch/extension.h>

#include <sstream>

namespace antegrad::python {

/// Defines str() and repr() of a report; notebooks and lists use the latter.
template <class T>
void add_text(py::class_<T>& type) {
  const auto text = [](const T& report) {
    std::ostringstream out;
    out << report;
    return out.str();
  };
  type.def("__str__", text).def("__repr__", text);
}

void add_reports(py::module_& module);

}  // namespace antegrad::python
