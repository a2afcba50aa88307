#include "backward.h"

#include <antegrad/compiled_backward.h>
#include <antegrad/config.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>
#include <vector>

#include "options.h"
#include "reports.h"
#include "torch_compat/backward_pass.h"

namespace antegrad::python {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using Tensors = std::vector<at::Tensor>;

// Where the gradient of an input arrives. Inputs whose gradients are added up keep it.
Edge edge_of(const at::Tensor& input, bool accumulates) {
  if (accumulates) input.retain_grad();
  return torch::autograd::impl::gradient_edge(input);
}

// A pass at libtorch's default engine, which is not that of Python while there is a scope. All
// tensors have a place in the graph. Nothing where gradients are added to `.grad`.
std::optional<std::vector<std::optional<at::Tensor>>> run_backward(
    const Tensors& tensors, const std::vector<std::optional<at::Tensor>>& gradients,
    bool keep_graph, const Tensors& inputs, bool accumulates) {
  edge_list roots, outputs;
  torch::autograd::variable_list tangents;
  for (const auto& tensor : tensors) {
    roots.push_back(torch::autograd::impl::gradient_edge(tensor));
  }
  for (const auto& gradient : gradients) tangents.push_back(gradient.value_or(at::Tensor()));
  for (const auto& input : inputs) outputs.push_back(edge_of(input, accumulates));
  torch::autograd::variable_list found;
  {
    const pybind11::gil_scoped_release no_gil;
    found = torch::autograd::Engine::get_default_engine().execute(
        roots, tangents, keep_graph, /*create_graph=*/false, accumulates, outputs);
  }
  if (accumulates) return std::nullopt;
  std::vector<std::optional<at::Tensor>> given;
  for (auto& gradient : found) {
    given.push_back(gradient.defined() ? std::optional(std::move(gradient)) : std::nullopt);
  }
  return given;
}

}  // namespace

void add_backward(py::module_& module) {
  py::class_<BackwardReport> report(module, "BackwardReport",
                                    "What a scope of compiled_backward did.");
  add_text(report);
  report.def_readonly("passes", &BackwardReport::passes, "That antegrad ran.")
      .def_readonly("nodes", &BackwardReport::nodes, "Of these passes.")
      .def_readonly("nodes_compiled", &BackwardReport::nodes_compiled,
                    "Of these, computed by programs.")
      .def_readonly("graphs", &BackwardReport::graphs, "Different ones.")
      .def_readonly("captures", &BackwardReport::captures, "Programs made.")
      .def_readonly("evictions", &BackwardReport::evictions,
                    "Graphs that were forgotten because of max_programs.")
      .def_readonly("recompiles", &BackwardReport::recompiles,
                    "Why passes were graphs that were not known, the newest last.")
      .def_readonly("regions", &BackwardReport::regions,
                    "Compiled regions that were part of programs, by name.")
      .def_readonly("own_nodes", &BackwardReport::own_nodes, "Nodes that run themselves, by name.")
      .def_readonly("eager_reasons", &BackwardReport::eager_reasons,
                    "Nodes that ran one by one though their formulas are known, by the reason.")
      .def_readonly("left_to_libtorch", &BackwardReport::left_to_libtorch,
                    "Whole passes that libtorch ran, by the reason.")
      .def_readonly("programs", &BackwardReport::programs, "Graph by graph.");
  py::class_<CompiledBackward>(module, "CompiledBackward",
                               "While one exists, backward passes run as programs.")
      .def(py::init([](const py::dict& options, const std::string& name) {
             return std::make_unique<CompiledBackward>(
                 options_from(options, name, default_options()));
           }),
           py::arg("options"), py::arg("name"))
      .def("report", &CompiledBackward::report, py::call_guard<py::gil_scoped_release>())
      .def("reset", &CompiledBackward::reset, py::call_guard<py::gil_scoped_release>());
  module.def("run_backward", torch::wrap_pybind_function(run_backward), py::arg("tensors"),
             py::arg("gradients"), py::arg("keep_graph"), py::arg("inputs"), py::arg("accumulates"),
             "A backward pass as libtorch's run_backward.");
  module.def("leave_passes", &torch_compat::leave_passes, py::arg("change"),
             "Leaves passes of this thread to libtorch while the sum of changes is above 0.");
  module.def("note_left_pass", &torch_compat::note_left_pass, py::arg("reason"),
             "Counts a pass that is left to libtorch.");
}

}  // namespace antegrad::python
