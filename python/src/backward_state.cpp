#include "backward_state.h"

#include <antegrad/backward_state.h>
#include <antegrad/error.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/backward_hooks.h"
#include "held_object.h"

namespace antegrad::python {
namespace {

using Tensors = std::vector<at::Tensor>;
using OptionalTensors = std::vector<std::optional<at::Tensor>>;

at::Tensor handle_of(const BackwardState& state) {
  Leaves leaves;
  tree<BackwardState>::flatten(state, leaves);
  return leaves.tensors.at(0);
}

BackwardState state_of(const at::Tensor& handle) {
  const Leaves leaves{{handle}, {}};
  LeafReader reader(leaves);
  return tree<BackwardState>::unflatten(reader);
}

at::Tensor gradient_of(const py::handle object, const char* from) {
  if (object.is_none()) return {};
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  throw BackwardError(ErrorText{
      std::string("a tensor or None from ") + from,
      "an object of type " + py::str(py::type::of(object).attr("__name__")).cast<std::string>(),
      "return a gradient like that which arrived, or None"});
}

BackwardState::Hook hook_of(py::object function) {
  if (function.is_none()) return nullptr;
  return [held = std::make_shared<HeldObject>(std::move(function))](const at::Tensor& gradient) {
    const py::gil_scoped_acquire gil;
    return gradient_of(held->object(gradient), "a hook of a BackwardState");
  };
}

// `find(name)` gives a function of a list of gradients, which returns a list of tensors and None.
BackwardState state_of_hooks_on_several(py::object find) {
  auto held = std::make_shared<HeldObject>(std::move(find));
  return state_of(capture::new_state([held](const std::string& name) -> capture::GradientsHook {
    const py::gil_scoped_acquire gil;
    auto function = std::make_shared<HeldObject>(held->object(name));
    return [function](const Tensors& gradients) {
      const py::gil_scoped_acquire gil;
      const py::list returned(function->object(gradients));
      Tensors made;
      for (const auto& item : returned) made.push_back(gradient_of(item, "a hook"));
      return made;
    };
  }));
}

Tensors call_hook(const BackwardState& state, const std::string& name, const Tensors& gradients,
                  int64_t replaced) {
  return capture::call_hook(handle_of(state), name, gradients, replaced);
}

}  // namespace

void add_backward_state(py::module_& module) {
  py::class_<BackwardState>(
      module, "BackwardState",
      "Hooks on tensors that a compiled function computes, with code that each call brings along.\n"
      "\n"
      "An argument of the function, which says with register_hook() where hooks belong. What they "
      "do is set before the backward runs, also after the call.")
      .def(py::init<>())
      .def(
          "set",
          [](const BackwardState& state, const std::string& name, py::object hook) {
            auto function = hook_of(std::move(hook));
            const py::gil_scoped_release no_gil;  // destroys the hook that was set
            state.set(name, std::move(function));
          },
          py::arg("name"), py::arg("hook"),
          "What the hook `name` does from now on: a function of the gradient, which returns the "
          "gradient to go on with, or None for the one that arrived. None takes the hook away.")
      .def("register_hook", &BackwardState::register_hook, py::arg("tensor"), py::arg("name"),
           "In each backward that reaches `tensor`, the hook `name` gets its gradient.")
      .def("_handle", &handle_of, "The tensor through which programs find the state.")
      .def_static("_of_handle", &state_of, py::arg("handle"))
      .def_static("_of_hooks", &state_of_hooks_on_several, py::arg("find"),
                  "A state whose hooks `find(name)` gives: functions of a list of gradients.")
      .def("_call", torch::wrap_pybind_function(call_hook), py::arg("name"), py::arg("gradients"),
           py::arg("replaced"),
           "Calls a hook on several gradients, of which it may replace the first ones.");
}

}  // namespace antegrad::python
