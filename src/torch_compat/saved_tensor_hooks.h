#pragma once

/// \file
/// libtorch's scopes of hooks on saved tensors.

#include <ATen/SavedTensorHooks.h>

#include "torch_compat/scope.h"

namespace antegrad::torch_compat {

/// During its lifetime, hooks of this thread's scopes do not fire on saved tensors.
class NoSavedTensorHooks : Scope {
 public:
  NoSavedTensorHooks() : before_(at::SavedTensorDefaultHooks::set_tracing(true)) {}
  ~NoSavedTensorHooks() { at::SavedTensorDefaultHooks::set_tracing(before_); }

 private:
  bool before_;
};

}  // namespace antegrad::torch_compat
