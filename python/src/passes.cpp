#include "passes.h"

#include <antegrad/error.h>
#include <antegrad/passes.h>

#include <memory>
#include <string>

#include "held_object.h"

namespace antegrad::python {
namespace {

void add_pass(const std::string& name, py::object pass) {
  if (PyCallable_Check(pass.ptr()) == 0) {
    throw InputError(
        ErrorText{"a function from text to text", std::string(py::str(py::type::of(pass))), ""});
  }
  const auto held = std::make_shared<HeldObject>(std::move(pass));
  register_joint_pass(name, [name, held](const std::string& graph) {
    const py::gil_scoped_acquire gil;
    const py::object changed = held->object(graph);
    if (py::isinstance<py::str>(changed)) return changed.cast<std::string>();
    throw InputError(ErrorText{"the text of a graph from the joint_custom_pass \"" + name + "\"",
                               std::string(py::str(py::type::of(changed))), ""});
  });
}

}  // namespace

void add_passes(py::module_& module) {
  module.def("register_joint_pass", &add_pass, py::arg("name"), py::arg("function"),
             "Gives a function from the text of a joint graph to the text of another a name for "
             "the option joint_custom_pass.");
}

}  // namespace antegrad::python
