#include <antegrad/kernels.h>

#include "kernels.h"

namespace antegrad::python {

void add_kernels(py::module_& module) {
  module.def("save_kernels", &save_kernels, py::arg("file"),
             py::call_guard<py::gil_scoped_release>(),
             "Writes the generated kernels that this process holds to a file, with what is known "
             "of them, for machines without a C compiler. Call it after a step of each program.");
  module.def(
      "load_kernels", &load_kernels, py::arg("file"), py::call_guard<py::gil_scoped_release>(),
      "From now on programs that are compiled take their kernels from this file where it has "
      "them. Kernels are code that runs in this process: no other user may have written the "
      "file.");
}

}  // namespace antegrad::python
