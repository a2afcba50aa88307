#pragma once

/// \file
/// A compiled Python function.

#include <antegrad/compile.h>
#include <torch/extension.h>

#include <memory>
#include <optional>

#include "held_object.h"
#include "structure.h"

namespace antegrad::python {

/// The object that antegrad.compile returns. Callers of all members hold the GIL. It is released
/// while programs are compiled and run, and taken again to run the Python function.
class Function {
 public:
  Function(py::object callable, Options options);

  /// Like the function itself. Throws the errors of CompiledFunction::call and the function's own
  /// exceptions.
  py::object operator()(const py::args& args, const py::kwargs& kwargs);
  /// Captures and compiles for these arguments without computing anything.
  void warmup(const py::args& args, const py::kwargs& kwargs);
  /// Declares Python state that the function reads besides its arguments. `read` is called once per
  /// call; its results are compared by value.
  void guard(py::object read);

  Report report() const { return function_.report(); }
  int64_t frame() const { return function_.frame(); }
  std::string chrome_trace() const { return function_.chrome_trace(); }
  void save_graph(const py::object& file) const {
    function_.save_graph(py::str(file).cast<std::string>());  // also takes a pathlib.Path
  }
  void reset();
  const py::object& callable() const { return callable_->object; }

 private:
  static Leaves run(void* callable, const Leaves& arguments);
  /// Nothing if the call must run eagerly.
  std::optional<Leaves> call(const py::args& args, const py::kwargs& kwargs, Containers& seen,
                             bool run);
  static void collect(bool all);
  detail::BodyRef body() const { return {callable_.get(), &run, &collect}; }

  std::shared_ptr<HeldObject> callable_;
  detail::CompiledFunction function_;
  Numbers numbers_;
  py::object first_values_ = py::none();  // that the function held at its first capture
};

}  // namespace antegrad::python
