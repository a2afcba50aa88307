#include "function.h"

#include "capture/libtorch_errors.h"
#include "hooks.h"
#include "structure.h"

namespace antegrad::python {
namespace {

Leaves leaves_of(const py::args& args, const py::kwargs& kwargs) {
  Leaves leaves;
  flatten(args, leaves);
  flatten(kwargs, leaves);
  return leaves;
}

// "at file.py:12, in f": the innermost line that is not libtorch's.
std::string place_of(const py::error_already_set& error) {
  const auto torch =
      py::module_::import("torch").attr("__path__").attr("__getitem__")(0).cast<std::string>();
  std::string place;
  for (const auto frame : py::module_::import("traceback").attr("extract_tb")(error.trace())) {
    const auto file = frame.attr("filename").cast<std::string>();
    if (file.starts_with(torch)) continue;
    place = "at " + file + ":" + py::str(frame.attr("lineno")).cast<std::string>() + ", in " +
            frame.attr("name").cast<std::string>();
  }
  return place;
}

}  // namespace

Function::Function(py::object callable, Options options)
    : callable_(std::make_shared<HeldObject>(std::move(callable))),
      function_(callable_, nullptr, std::move(options)) {}

Leaves Function::run(void* callable, const Leaves& arguments) {
  const py::gil_scoped_acquire gil;
  LeafReader reader(arguments);
  const auto args = unflatten(reader), kwargs = unflatten(reader);
  py::object result;
  try {
    result = static_cast<HeldObject*>(callable)->object(*py::tuple(args), **py::dict(kwargs));
  } catch (py::error_already_set& error) {
    // On their way through Python frames errors of ours and of libtorch became RuntimeErrors.
    if (!error.matches(PyExc_RuntimeError)) throw;
    try {
      capture::rethrow_foreign(py::str(error.value()).cast<std::string>());
    } catch (Error& typed) {
      typed.add_context(place_of(error));
      throw;
    }
    throw;
  }
  Leaves leaves;
  flatten(result, leaves);
  return leaves;
}

// Objects that refer to each other in a cycle hold their tensors until then.
void Function::collect(bool all) {
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;  // a failed backward pass may have left an error
  py::module_::import("gc").attr("collect")(all ? 2 : 1);
}

py::object Function::operator()(const py::args& args, const py::kwargs& kwargs) {
  const auto arguments = leaves_of(args, kwargs);
  const TorchHooks hooks;
  const auto results = [&] {
    const py::gil_scoped_release no_gil;
    return function_.call(arguments, body(), /*run=*/true);
  }();
  if (!results) return callable()(*args, **kwargs);
  LeafReader reader(*results);
  return unflatten(reader);
}

void Function::warmup(const py::args& args, const py::kwargs& kwargs) {
  const auto arguments = leaves_of(args, kwargs);
  const TorchHooks hooks;
  const py::gil_scoped_release no_gil;
  function_.call(arguments, body(), /*run=*/false);
}

void Function::guard(py::object read) {
  const auto held = std::make_shared<HeldObject>(std::move(read));
  function_.add_guard([held] {
    const py::gil_scoped_acquire gil;
    Leaves leaves;
    flatten(held->object(), leaves);
    if (!leaves.tensors.empty()) throw py::type_error("a guard returns no tensors");
    return leaves.host;
  });
}

void Function::reset() {
  const py::gil_scoped_release no_gil;
  function_.reset();
}

}  // namespace antegrad::python
