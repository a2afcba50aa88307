#pragma once

/// \file
/// A compiled Python function.

#include <antegrad/compile.h>
#include <torch/extension.h>

#include <memory>
#include <optional>

#include "held_object.h"
#include "step/whole_step.h"
#include "structure.h"

namespace antegrad::python {

/// The object that antegrad.compile returns. Callers of all members hold the GIL. It is released
/// while programs are compiled and run, and taken again to run the Python function.
class Function {
 public:
  /// With `step`, calls of the function, a loss, are whole steps.
  Function(py::object callable, Options options, std::shared_ptr<step::WholeStep> step = nullptr);

  /// Like the function itself, or like a step, which returns the loss without a history. Throws the
  /// errors of CompiledFunction::call and the function's own exceptions.
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

  /// Of a step: forgets gradients that were added up.
  void zero_grad() { step_->zero_grad(); }

 private:
  struct Callable : HeldObject {
    Callable(py::object o, bool is_loss) : HeldObject(std::move(o)), is_loss(is_loss) {}
    bool is_loss;
  };

  static Leaves run(void* callable, const Leaves& arguments);
  /// Nothing if the call must run eagerly.
  std::optional<Leaves> call(const py::args& args, const py::kwargs& kwargs, Containers& seen,
                             bool run);
  py::object eager_step(const at::Tensor& loss);
  static void collect(bool all);
  detail::BodyRef body() const { return {callable_.get(), &run, &collect}; }

  std::shared_ptr<Callable> callable_;
  std::shared_ptr<step::WholeStep> step_;  // null where calls are no whole steps
  detail::CompiledFunction function_;
  Numbers numbers_;
  py::object first_values_ = py::none();  // that the function held at its first capture
};

}  // namespace antegrad::python
