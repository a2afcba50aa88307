#include "errors.h"

#include <antegrad/error.h>

#include <exception>

namespace antegrad::python {
namespace {

// Raises `error` as this Python class when it is of this C++ type. pybind11 asks translators from the last that was
// registered to the first: bases have to be registered before what derives from them.
template <class E>
py::object add(py::module_& module, const char* name, py::handle base) {
  return py::register_exception<E>(module, name, base);
}

}  // namespace

void add_errors(py::module_& module) {
  const auto error = add<Error>(module, "Error", PyExc_RuntimeError);
  add<InputError>(module, "InputError", error);
  add<OptionError>(module, "OptionError", error);
  add<GraphError>(module, "GraphError", error);
  const auto capture = add<CaptureError>(module, "CaptureError", error);
  add<TensorKindError>(module, "TensorKindError", capture);
  add<DataDependentError>(module, "DataDependentError", capture);
  add<NestedCaptureError>(module, "NestedCaptureError", capture);
  add<MutationError>(module, "MutationError", capture);
  add<EscapeError>(module, "EscapeError", capture);
  add<BackwardError>(module, "BackwardError", error);
  add<HostStateError>(module, "HostStateError", error);
  add<MismatchError>(module, "MismatchError", error);
  add<InternalError>(module, "InternalError", error);
}

}  // namespace antegrad::python
