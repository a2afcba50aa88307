#include "errors.h"

#include <antegrad/error.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <vector>

#include "runtime/front_errors.h"

namespace antegrad::python {
namespace {

// The Python exception classes of the C++ classes, bases first.
struct Class {
  bool (*is)(const Error* error);
  PyObject* type;
};
std::vector<Class>& classes() {
  static auto* const classes = new std::vector<Class>();  // immortal, like the exception classes
  return *classes;
}

template <class E, class Base>
py::handle add(py::module_& module, const char* name, const Base& base) {
  const py::handle type = py::register_exception<E>(module, name, base);
  classes().push_back(
      {[](const Error* error) { return dynamic_cast<const E*>(error) != nullptr; }, type.ptr()});
  return type;
}

// The exception that libtorch's engine raises in Python for such a class.
struct Raised : torch::PyTorchError {
  Raised(const std::string& message, PyObject* as) : PyTorchError(message), type(as) {}
  PyObject* python_type() override { return type; }
  PyObject* type;
};

void raise(const Error& error) {
  for (auto c = classes().rbegin(); c != classes().rend(); ++c) {
    if (c->is(&error)) throw Raised(error.what(), c->type);
  }
}

}  // namespace

// pybind11 calls translators in reverse order of registration: base classes must be registered
// first.
void add_errors(py::module_& module) {
  const auto error = add<Error>(module, "Error", PyExc_RuntimeError);
  add<InputError>(module, "InputError", error);
  add<OptionError>(module, "OptionError", error);
  add<GraphError>(module, "GraphError", error);
  add<BudgetError>(module, "BudgetError", error);
  add<HookError>(module, "HookError", error);
  add<CacheError>(module, "CacheError", error);
  const auto capture = add<CaptureError>(module, "CaptureError", error);
  add<TensorKindError>(module, "TensorKindError", capture);
  add<DataDependentError>(module, "DataDependentError", capture);
  add<NestedCaptureError>(module, "NestedCaptureError", capture);
  add<MutationError>(module, "MutationError", capture);
  add<ShapeMismatchError>(module, "ShapeMismatchError", capture);
  add<EscapeError>(module, "EscapeError", capture);
  add<BackwardError>(module, "BackwardError", error);
  add<HostStateError>(module, "HostStateError", error);
  add<MismatchError>(module, "MismatchError", error);
  add<InternalError>(module, "InternalError", error);
  runtime::set_throw_for_front(&raise);
}

}  // namespace antegrad::python
