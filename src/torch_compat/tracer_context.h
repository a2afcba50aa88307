#pragma once

/// \file
/// Finds the object that belongs to the running capture, on whichever thread libtorch continues it.
///
/// On CUDA the autograd engine runs backward nodes on its device threads. Dispatch-key state travels
/// there with at::ThreadLocalState, a `thread_local` of ours does not; c10::ThreadLocalDebugInfo does.

#include <memory>

namespace antegrad::torch_compat {

/// Base of what can be carried.
class CarriedBase {
 public:
  virtual ~CarriedBase() = default;
};

/// The object of the innermost CarriedScope of this thread or of the thread that started this work; null when none.
CarriedBase* carried();

/// Makes `object` the carried one for the lifetime of the scope. Not movable; scopes nest.
class CarriedScope {
 public:
  explicit CarriedScope(CarriedBase* object);
  ~CarriedScope();
  CarriedScope(const CarriedScope&) = delete;
  CarriedScope& operator=(const CarriedScope&) = delete;
};

}  // namespace antegrad::torch_compat
