#include "function.h"

#include "captured_call.h"
#include "changes.h"
#include "held_containers.h"
#include "hooks.h"

namespace antegrad::python {
namespace {

// `result` is None if the function was not run.
CaptureError refusal(const Unsupported& unsupported, const py::tuple& args, const py::dict& kwargs,
                     const py::object& result) {
  const auto place = py::module_::import("antegrad._structures")
                         .attr("place_of")(unsupported.object, args, kwargs, result)
                         .cast<std::string>();
  return {"",
          {"tensors, None, numbers, strings, values such as torch.dtype, and structures of these "
           "(tuples, lists, dictionaries, dataclasses, types registered with torch.utils._pytree) "
           "as arguments and results of a compiled function",
           type_text(unsupported.object) + " (" + place + ")",
           "register its type with torch.utils._pytree.register_pytree_node, use its tensors, or "
           "let the function hold it"}};
}

Leaves leaves_of(const py::args& args, const py::kwargs& kwargs, Containers& seen,
                 Numbers& numbers) {
  Leaves leaves;
  numbers.start();
  try {
    flatten(args, seen, leaves, &numbers);
    flatten_contents(kwargs, seen, leaves, &numbers);
  } catch (const Unsupported& unsupported) {
    throw refusal(unsupported, args, kwargs, py::none());
  }
  if (!numbers.finish()) return leaves;
  seen.shrink(0);
  return leaves_of(args, kwargs, seen, numbers);
}

std::vector<HostValue> guarded(const py::object& state) {
  const auto fail = [](const std::string& found) {
    throw InputError(ErrorText{"numbers, strings and structures of these from a guard", found,
                               "return the parts of it that the function reads"});
  };
  Containers seen;
  Leaves leaves;
  try {
    flatten(state, seen, leaves);
  } catch (const Unsupported& unsupported) {
    fail(type_text(unsupported.object));
  }
  if (!leaves.tensors.empty()) fail("a tensor");
  return leaves.host;
}

}  // namespace

// What a loss function returned.
at::Tensor loss_of(const py::object& result) {
  if (!THPVariable_Check(result.ptr())) {
    throw InputError(ErrorText{"a loss, a tensor of one element, from the function of a step",
                               type_text(result), "return the mean or the sum of the losses"});
  }
  auto loss = result.cast<at::Tensor>();
  detail::check_loss(loss);
  return loss;
}

Function::Function(py::object callable, Options options, std::shared_ptr<step::WholeStep> step)
    : callable_(std::make_shared<Callable>(std::move(callable), step != nullptr)),
      step_(std::move(step)),
      function_(callable_, nullptr, std::move(options),
                step_ == nullptr ? detail::StepUpdate() : step_->update()) {}

Leaves Function::run(void* callable, const Leaves& arguments) {
  const py::gil_scoped_acquire gil;
  LeafReader reader(arguments);
  Containers seen;
  const py::tuple args = unflatten(reader, seen);
  const py::dict kwargs = unflatten_contents(reader, seen);
  HeldContainers::remember();
  py::object result = py::none();
  const auto& function = *static_cast<Callable*>(callable);
  try {
    const Contents before(seen);
    result = call_captured(function.object, args, kwargs);
    if (function.is_loss) loss_of(result);
    const auto changed = before.changed(args, kwargs);
    Leaves leaves;
    flatten(result, seen, leaves);
    flatten_changes(changed, seen, leaves);
    return leaves;
  } catch (const Unsupported& unsupported) {
    throw refusal(unsupported, args, kwargs, result);
  }
}

// Objects in a reference cycle hold their tensors until Python collects them.
void Function::collect(bool all) {
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;  // a failed backward pass may have left an error
  py::module_::import("gc").attr("collect")(all ? 2 : 1);
}

std::optional<Leaves> Function::call(const py::args& args, const py::kwargs& kwargs,
                                     Containers& seen, bool run) {
  if (step_ != nullptr) step_->begin();
  Leaves arguments;
  try {
    arguments = leaves_of(args, kwargs, seen, numbers_);
  } catch (const CaptureError& error) {
    const py::gil_scoped_release no_gil;
    function_.refuse(error);
    return std::nullopt;
  }
  if (step_ != nullptr) step_->add_to(arguments);
  HeldContainers held(callable());
  try {
    const TorchHooks hooks;
    auto results = [&] {
      const py::gil_scoped_release no_gil;
      return function_.call(arguments, body(), run);
    }();
    if (first_values_.is_none()) first_values_ = held.values();
    if (!results) held.restore();
    return results;
  } catch (HostStateError& error) {
    for (const auto& line :
         {HeldContainers::changes(first_values_, held.values()), held.restore()}) {
      if (!line.empty()) error.add_context(line);
    }
    throw;
  } catch (Error& error) {
    if (const auto changed = held.restore(); !changed.empty()) error.add_context(changed);
    throw;
  } catch (...) {
    held.restore();
    throw;
  }
}

py::object Function::operator()(const py::args& args, const py::kwargs& kwargs) {
  Containers seen;
  std::optional<at::AutoGradMode> with_grad;  // as in the loop of a training
  if (step_ != nullptr) with_grad.emplace(true);
  const auto results = call(args, kwargs, seen, /*run=*/true);
  if (!results) {
    auto result = callable()(*args, **kwargs);
    return step_ == nullptr ? result : eager_step(loss_of(result));
  }
  if (step_ != nullptr) step_->end();
  LeafReader reader(*results);
  auto result = unflatten(reader, seen);
  make_changes(reader, seen);
  return result;
}

py::object Function::eager_step(const at::Tensor& loss) {
  const auto found = [&] {
    const py::gil_scoped_release no_gil;
    return step_->end_eagerly(loss);
  }();
  return py::cast(found);
}

void Function::warmup(const py::args& args, const py::kwargs& kwargs) {
  Containers seen;
  call(args, kwargs, seen, /*run=*/false);
}

void Function::guard(py::object read) {
  const auto held = std::make_shared<HeldObject>(std::move(read));
  function_.add_guard([held] {
    const py::gil_scoped_acquire gil;
    return guarded(held->object());
  });
}

void Function::reset() {
  const py::gil_scoped_release no_gil;
  function_.reset();
}

}  // namespace antegrad::python
