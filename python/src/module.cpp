// The extension module antegrad._C. Its Python interface is in python/antegrad.

#include <antegrad/compile_step.h>
#include <antegrad/config.h>
#include <torch/extension.h>

#include "backward.h"
#include "backward_state.h"
#include "bundle.h"
#include "checkpoint.h"
#include "errors.h"
#include "function.h"
#include "hooks.h"
#include "logs.h"
#include "memory.h"
#include "numbers.h"
#include "optimizer.h"
#include "options.h"
#include "partition.h"
#include "passes.h"
#include "reports.h"

namespace antegrad::python {
namespace {

struct Step : Function {
  using Function::Function;
};

std::unique_ptr<Step> make_step(py::object callable, py::object optimizer, const py::dict& options,
                                const std::string& name, std::optional<double> clip_value,
                                std::optional<double> clip_norm, double clip_norm_type,
                                int64_t accumulate) {
  auto step = std::make_shared<step::WholeStep>(
      std::make_shared<PythonOptimizer>(std::move(optimizer)),
      StepOptions{clip_value, clip_norm, clip_norm_type, accumulate});
  return std::make_unique<Step>(std::move(callable),
                                step::checked(options_from(options, name, default_step_options())),
                                std::move(step));
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  register_numbers();
  add_errors(module);
  add_logs(module);
  add_memory(module);
  add_bundle(module);
  add_reports(module);
  add_backward(module);
  add_backward_state(module);
  add_checkpoints(module);
  add_config(module);
  add_ready_made_hooks(module);
  add_passes(module);
  add_partition(module);
  py::class_<Function>(module, "Function", "A compiled function; see antegrad.compile.")
      .def(py::init([](py::object callable, const py::dict& options, const std::string& name) {
             return std::make_unique<Function>(std::move(callable),
                                               options_from(options, name, default_options()));
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
  py::class_<Step, Function>(module, "Step", "A compiled training step; see compile_step.")
      .def(py::init(&make_step), py::arg("callable"), py::arg("optimizer"), py::arg("options"),
           py::arg("name"), py::arg("clip_value"), py::arg("clip_norm"), py::arg("clip_norm_type"),
           py::arg("accumulate"))
      .def("zero_grad", &Step::zero_grad,
           "Forgets gradients that were added up: the next call is the first one of an update.");
}

}  // namespace antegrad::python
