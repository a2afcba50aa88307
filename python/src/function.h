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

/// What antegrad.compile returns. The GIL is held by the callers of all members; it is let go of
/// while programs are compiled and run, and taken again where the function itself runs.
class Function {
 public:
  Function(py::object callable, Options options);

  /// As the function itself. Throws what CompiledFunction::call throws, and the function's own
  /// exceptions.
  py::object operator()(const py::args& args, const py::kwargs& kwargs);
  /// Captures and compiles for these arguments without running anything real.
  void warmup(const py::args& args, const py::kwargs& kwargs);
  /// Python state that the function reads besides its arguments: called once a call, compared by
  /// value.
  void guard(py::object read);

  Report report() const { return function_.report(); }
  void save_graph(const py::object& file) const {
    function_.save_graph(py::str(file).cast<std::string>());  // a pathlib.Path as well
  }
  void reset();
  const py::object& callable() const { return callable_->object; }

 private:
  static Leaves run(void* callable, const Leaves& arguments);
  /// Nothing where the call must run eagerly.
  std::optional<Leaves> call(const py::args& args, const py::kwargs& kwargs, Containers& seen,
                             bool run);
  static void collect(bool all);
  detail::BodyRef body() const { return {callable_.get(), &run, &collect}; }

  std::shared_ptr<HeldObject> callable_;
  detail::CompiledFunction function_;
};

}  // namespace antegrad::python
