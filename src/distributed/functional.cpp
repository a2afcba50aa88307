/// \file
/// Operators that pair_waits() puts in the place of c10d's functional collectives and of their wait
/// (passes/waits.h).
///
///   antegrad::wait_once(Tensor started, Tensor[] sources, str group) -> Tensor
///       `started`, from when on it may be read. Until then nobody may free or write `sources`.
///   antegrad::agreed_wait, antegrad::agreed_all_reduce, ...
///       wait_once and the functional collectives, which may be repeated, merged and left out.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "distributed/group_state.h"

namespace antegrad::distributed {
namespace {

constexpr const char* kFunctional = "_c10d_functional::";

c10::OperatorHandle functional(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((kFunctional + name).c_str(), "");
}

at::Tensor run_functional_wait(const at::Tensor& started, at::TensorList /*sources*/,
                               std::string group) {
  static const auto wait = functional("wait_tensor");
  try {
    torch::jit::Stack stack = {started};
    wait.callBoxed(stack);
  } catch (const std::exception& error) {
    find_group(group)->fail("a collective", error);
  }
  return started;
}

/// Of the functional collective whose name follows the prefix.
void run_agreed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const std::string prefix = "antegrad::agreed_";
  functional(op.schema().name().substr(prefix.size())).callBoxed(stack);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(antegrad, m) {
  m.def("wait_once(Tensor started, Tensor[] sources, str group) -> Tensor");
  m.def("agreed_wait(Tensor started, Tensor[] sources, str group) -> Tensor");
  m.def("agreed_all_reduce(Tensor input, str reduce_op, str group) -> Tensor");
  m.def("agreed_all_gather_into_tensor(Tensor input, int group_size, str group) -> Tensor");
  m.def(
      "agreed_reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group) -> "
      "Tensor");
  m.def(
      "agreed_all_to_all_single(Tensor input, SymInt[] output_split_sizes, "
      "SymInt[] input_split_sizes, str group) -> Tensor");
  m.def("agreed_broadcast(Tensor input, int src, str group) -> Tensor");
}

TORCH_LIBRARY_IMPL(antegrad, CompositeExplicitAutograd, m) {
  m.impl("wait_once", &run_functional_wait);
  m.impl("agreed_wait", &run_functional_wait);
  for (const char* name :
       {"agreed_all_reduce", "agreed_all_gather_into_tensor", "agreed_reduce_scatter_tensor",
        "agreed_all_to_all_single", "agreed_broadcast"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_agreed>());
  }
}

}  // namespace antegrad::distributed
