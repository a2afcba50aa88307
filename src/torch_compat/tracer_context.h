#pragma once

/// \file
/// Finds the object of the running capture, on whichever thread libtorch continues it.
///
/// On CUDA the autograd engine runs backward nodes on its device threads. at::ThreadLocalState
/// carries dispatch-key state to them, and c10::ThreadLocalDebugInfo too, but not a `thread_local`
/// of ours.

#include "torch_compat/scope.h"

namespace antegrad::torch_compat {

/// Base class of objects that can be carried.
class CarriedBase {
 public:
  virtual ~CarriedBase() = default;
};

/// The object of the innermost CarriedScope of this thread, or of the thread that started this
/// work; null if there is none.
CarriedBase* carried();

/// Carries `object` during the lifetime of the scope. Not movable; scopes nest.
class CarriedScope : Scope {
 public:
  explicit CarriedScope(CarriedBase* object);
  ~CarriedScope();
};

}  // namespace antegrad::torch_compat
