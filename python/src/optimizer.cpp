#include "optimizer.h"

#include <antegrad/error.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace antegrad::python {
namespace {

step::Update arithmetic(const std::string& name) {
  if (name == "sgd") return &step::sgd::update;
  AG_CHECK(name == "adam", "the arithmetic of an optimizer");
  return &step::adam::update;
}

step::Form form_of(const py::handle& flags) {
  step::Form form;
  for (const bool flag : flags.cast<std::vector<bool>>()) form.emplace_back(flag);
  return form;
}

}  // namespace

PythonOptimizer::PythonOptimizer(py::object adapter)
    : adapter_(std::make_shared<HeldObject>(std::move(adapter))),
      update_(arithmetic(adapter_->object.attr("arithmetic").cast<std::string>())) {}

step::Layout PythonOptimizer::layout() {
  const py::gil_scoped_acquire gil;
  step::Layout layout;
  for (const auto& given : adapter_->object.attr("layout")()) {
    const auto [numbers, parameters] = given.cast<std::pair<std::vector<double>, py::list>>();
    auto& group = layout.groups.emplace_back();
    group.numbers = numbers;
    for (const auto& entry : parameters) {
      const auto fields = entry.cast<py::tuple>();
      const auto tensor = fields[0].cast<at::Tensor>();
      step::check_parameter(tensor);
      group.parameters.push_back({.tensor = tensor,
                                  .form = form_of(fields[1]),
                                  .numbers = fields[2].cast<std::vector<double>>(),
                                  .state = fields[3].cast<step::Tensors>()});
    }
  }
  return layout;
}

void PythonOptimizer::note_steps(const std::vector<const step::Parameter*>& parameters) {
  const py::gil_scoped_acquire gil;
  py::list tensors;
  for (const auto* parameter : parameters) tensors.append(parameter->tensor);
  adapter_->object.attr("note_steps")(tensors);
}

void PythonOptimizer::step() {
  const py::gil_scoped_acquire gil;
  adapter_->object.attr("step")();
}

}  // namespace antegrad::python
