// The extension module antegrad._C. Its Python interface is in python/antegrad.

#include <torch/extension.h>

#include "checkpoint.h"
#include "errors.h"
#include "function.h"
#include "hooks.h"
#include "logs.h"
#include "numbers.h"
#include "options.h"
#include "partition.h"
#include "passes.h"
#include "reports.h"

namespace antegrad::python {

PYBIND11_MODULE(_C, module) {
  register_numbers();
  add_errors(module);
  add_logs(module);
  add_reports(module);
  add_checkpoints(module);
  add_config(module);
  add_ready_made_hooks(module);
  add_passes(module);
  add_partition(module);
  py::class_<Function>(module, "Function", "A compiled function; see antegrad.compile.")
      .def(py::init([](py::object callable, const py::dict& options, const std::string& name) {
             return std::make_unique<Function>(std::move(callable), options_from(options, name));
           }),
           py::arg("callable"), py::arg("options"), py::arg("name"))
      .def("__call__", &Function::operator())
      .def("warmup", &Function::warmup,
           "Captures and compiles for these arguments without computing anything.")
      .def("guard", &Function::guard, py::arg("read"),
           "Declares state that the function reads besides its arguments: `read` is called once a "
           "call, and another "
           "value selects or captures another program.")
      .def("report", &Function::report, py::call_guard<py::gil_scoped_release>(),
           "What the function did so far.")
      .def_property_readonly("frame", &Function::frame, "Its number in structured traces.")
      .def("chrome_trace", &Function::chrome_trace,
           "The compilation of each program and a step of it by operators, as JSON for Perfetto.")
      .def("save_graph", &Function::save_graph, py::arg("file"),
           "Writes the newest program's graph, with how it was partitioned, for the antegrad "
           "command line.")
      .def("reset", &Function::reset, "Forgets all programs; the next call captures again.")
      .def_property_readonly("__wrapped__", &Function::callable, "The original function.");
}

}  // namespace antegrad::python
