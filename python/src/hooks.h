#pragma once

/// \file
/// Hooks on saved tensors from Python: torch.autograd.graph.saved_tensors_hooks around compiled
/// calls.

#include <antegrad/saved_tensors.h>
#include <pybind11/pybind11.h>

#include <optional>

namespace antegrad::python {

/// The innermost of libtorch's scopes of hooks, where there is one, for compiled calls of this
/// thread. Inlined are graph modules, as in the reference, and hooks that
/// antegrad.saved_tensors_hooks marked so. The GIL is held where it is made and where it dies.
class TorchHooks {
 public:
  TorchHooks();

 private:
  std::optional<SavedTensorHooks> scope_;
};

/// What antegrad.compress is made of.
void add_ready_made_hooks(pybind11::module_& module);

}  // namespace antegrad::python
