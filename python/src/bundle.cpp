#include "bundle.h"

#include <antegrad/bundle.h>

namespace antegrad::python {

void add_bundle(py::module_& module) {
  module.def("save_bundle", &save_bundle, py::arg("file"), py::call_guard<py::gil_scoped_release>(),
             "Writes the plans and the generated kernels that this process used to a file, for "
             "other machines. Call it after a step of each program.");
  module.def("load_bundle", &load_bundle, py::arg("file"), py::call_guard<py::gil_scoped_release>(),
             "From now on programs that are compiled take their plans and kernels from this file "
             "where it has them. Kernels are code that runs in this process: no other user may "
             "have written the file.");
}

}  // namespace antegrad::python
