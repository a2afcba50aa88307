#include "errors.h"

#include <antegrad/error.h>

namespace antegrad::python {

// pybind11 asks translators from the last that was registered to the first: bases have to be registered before what
// derives from them.
void add_errors(py::module_& module) {
  using py::register_exception;
  const auto error = register_exception<Error>(module, "Error", PyExc_RuntimeError);
  register_exception<InputError>(module, "InputError", error);
  register_exception<OptionError>(module, "OptionError", error);
  register_exception<GraphError>(module, "GraphError", error);
  const auto capture = register_exception<CaptureError>(module, "CaptureError", error);
  register_exception<TensorKindError>(module, "TensorKindError", capture);
  register_exception<DataDependentError>(module, "DataDependentError", capture);
  register_exception<NestedCaptureError>(module, "NestedCaptureError", capture);
  register_exception<MutationError>(module, "MutationError", capture);
  register_exception<ShapeMismatchError>(module, "ShapeMismatchError", capture);
  register_exception<EscapeError>(module, "EscapeError", capture);
  register_exception<BackwardError>(module, "BackwardError", error);
  register_exception<HostStateError>(module, "HostStateError", error);
  register_exception<MismatchError>(module, "MismatchError", error);
  register_exception<InternalError>(module, "InternalError", error);
}

}  // namespace antegrad::python
