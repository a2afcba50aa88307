#include "function.h"

#include "captured_call.h"
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

}  // namespace

Function::Function(py::object callable, Options options)
    : callable_(std::make_shared<HeldObject>(std::move(callable))),
      function_(callable_, nullptr, std::move(options)) {}

Leaves Function::run(void* callable, const Leaves& arguments) {
  const py::gil_scoped_acquire gil;
  LeafReader reader(arguments);
  const auto args = unflatten(reader), kwargs = unflatten(reader);
  const auto result = call_captured(static_cast<HeldObject*>(callable)->object, args, kwargs);
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
