// The extension module antegrad._C. Its Python face is in python/antegrad.

#include <antegrad/report.h>
#include <torch/extension.h>

#include <sstream>

#include "checkpoint.h"
#include "errors.h"
#include "function.h"
#include "hooks.h"
#include "options.h"
#include "passes.h"

namespace antegrad::python {
namespace {

// str() and repr() of a report: notebooks and lists show the latter.
template <class T>
void add_text(py::class_<T>& type) {
  const auto text = [](const T& report) {
    std::ostringstream out;
    out << report;
    return out.str();
  };
  type.def("__str__", text).def("__repr__", text);
}

void add_reports(py::module_& module) {
  py::class_<ShapeCheck> check(module, "ShapeCheck",
                               "How the results of one operator were described, by calls.");
  add_text(check);
  check.def_readonly("shape_functions", &ShapeCheck::shape_functions)
      .def_readonly("meta_kernels", &ShapeCheck::meta_kernels)
      .def_readonly("real_kernels", &ShapeCheck::real_kernels)
      .def_readonly("checked", &ShapeCheck::checked,
                    "Calls that were compared with the real kernel.")
      .def_readonly("skipped", &ShapeCheck::skipped,
                    "Calls whose kernel cannot run on invented data.")
      .def_readonly("mismatches", &ShapeCheck::mismatches,
                    "Calls whose kernel returns something else.")
      .def_readonly("mismatch", &ShapeCheck::mismatch, "The first of these in words.");
  py::class_<ProgramReport> program(module, "ProgramReport", "One captured and compiled program.");
  add_text(program);
  program.def_readonly("name", &ProgramReport::name)
      .def_readonly("graph_hash", &ProgramReport::graph_hash,
                    "Of the joint graph: equal in every run.")
      .def_readonly("joint_nodes", &ProgramReport::joint_nodes, "After simplification.")
      .def_readonly("forward_nodes", &ProgramReport::forward_nodes)
      .def_readonly("backward_nodes", &ProgramReport::backward_nodes)
      .def_readonly("lifted_tensors", &ProgramReport::lifted_tensors,
                    "Parameters, buffers and constants that the function holds.")
      .def_readonly("recomputed", &ProgramReport::recomputed,
                    "Operators of the forward that run again in the backward, views included.")
      .def_readonly("saved_tensors", &ProgramReport::saved_tensors,
                    "Intermediates kept for backward.")
      .def_readonly("saved_bytes", &ProgramReport::saved_bytes)
      .def_readonly(
          "donated", &ProgramReport::donated,
          "Saved tensors whose memory the backward frees or reuses once it has read them.")
      .def_readonly("hooks", &ProgramReport::hooks, "The name of hooks that were inlined, or ''.")
      .def_readonly("hooked", &ProgramReport::hooked,
                    "Saved tensors that the hooks stand for, and what is saved instead.")
      .def_readonly("not_hooked", &ProgramReport::not_hooked,
                    "Saved tensors that they do not stand for, and why.")
      .def_readonly("cache_hashes", &ProgramReport::cache_hashes,
                    "Hashes of code that graphs name only, with what each stands for.")
      .def_readonly("cache_bypass", &ProgramReport::cache_bypass,
                    "Why the program could not be kept for other processes; empty if it could.")
      .def_readonly("memory_budget_bytes", &ProgramReport::memory_budget_bytes,
                    "What was asked for; 0 without a budget.")
      .def_readonly("eager_peak_bytes", &ProgramReport::eager_peak_bytes,
                    "With a budget: the peak when nothing is computed again.")
      .def_readonly("smallest_budget_bytes", &ProgramReport::smallest_budget_bytes,
                    "With a budget: the smallest that a plan is known for.")
      .def_readonly("recompute_share", &ProgramReport::recompute_share,
                    "With a budget: how much longer a step takes, by estimate.")
      .def_readonly("planning_ms", &ProgramReport::planning_ms, "Part of compile_ms.")
      .def_readonly("predicted_peak_bytes", &ProgramReport::predicted_peak_bytes,
                    "Of one forward and backward.")
      .def_readonly("capture_ms", &ProgramReport::capture_ms)
      .def_readonly("compile_ms", &ProgramReport::compile_ms)
      .def_readonly("shape_functions", &ProgramReport::shape_functions,
                    "Operators whose outputs a shape function described.")
      .def_readonly("meta_kernels", &ProgramReport::meta_kernels)
      .def_readonly("real_kernels", &ProgramReport::real_kernels)
      .def_readonly("without_shape_function", &ProgramReport::without_shape_function,
                    "Calls by operator that no shape function described.")
      .def_readonly("shape_checks", &ProgramReport::shape_checks,
                    "By operator; empty unless cross_check_shapes is on.");
  py::class_<Report> report(module, "Report",
                            "What a compiled function did and decided; print() shows it.");
  add_text(report);
  report.def_readonly("name", &Report::name)
      .def_readonly("compiled_calls", &Report::compiled_calls)
      .def_readonly("eager_calls", &Report::eager_calls, "Calls that ran the function as it is.")
      .def_readonly("eager_reasons", &Report::eager_reasons, "Counts by reason.")
      .def_readonly("audits", &Report::audits,
                    "Calls that captured the function again and compared.")
      .def_readonly("checked_calls", &Report::checked_calls, "Calls that were compared with eager.")
      .def_readonly("recompiles", &Report::recompiles, "Which guard failed, and the two values.")
      .def_readonly("programs", &Report::programs, "Oldest first.");
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  add_errors(module);
  add_reports(module);
  add_checkpoints(module);
  add_config(module);
  add_ready_made_hooks(module);
  add_passes(module);
  py::class_<Function>(module, "Function", "A compiled function; see antegrad.compile.")
      .def(py::init([](py::object callable, const py::dict& options, const std::string& name) {
             return std::make_unique<Function>(std::move(callable), options_from(options, name));
           }),
           py::arg("callable"), py::arg("options"), py::arg("name"))
      .def("__call__", &Function::operator())
      .def("warmup", &Function::warmup,
           "Captures and compiles for these arguments without running anything real.")
      .def("guard", &Function::guard, py::arg("read"),
           "Declares state that the function reads besides its arguments: `read` is called once a "
           "call, and another "
           "value selects or captures another program.")
      .def("report", &Function::report, py::call_guard<py::gil_scoped_release>(),
           "What the function did so far.")
      .def("save_graph", &Function::save_graph, py::arg("file"),
           "Writes the newest program's graph, with how it was partitioned, for the antegrad "
           "command line.")
      .def("reset", &Function::reset, "Forgets all programs; the next call captures again.")
      .def_property_readonly("__wrapped__", &Function::callable, "The function itself.");
}

}  // namespace antegrad::python
