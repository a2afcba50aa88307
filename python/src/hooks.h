#pragma once

/// \file
/// Hooks on saved tensors from Python: torch.autograd.graph.saved_tensors_hooks around compiled
/// calls.

#include <antegrad/saved_tensors.h>
#include <pybind11/pybind11.h>

#include <optional>

namespace antegrad::python {

/// The innermost of libtorch's scopes of hooks, if any, for compiled calls of this thread. Graph
/// modules are inlined, as in AOTAutograd, and so are hooks that antegrad.saved_tensors_hooks
/// marked. Construction and destruction need the GIL.
class TorchHooks {
 public:
  TorchHooks();

 private:
  std::optional<SavedTensorHooks> scope_;
};

/// Adds the hooks of antegrad.compress.
void add_ready_made_hooks(pybind11::module_& module);

}  // namespace antegrad::python
