#pragma once

/// \file
/// Observes the operator calls of this thread while eager code runs, by libtorch's RecordFunction:
/// above autograd, including nested calls of operators.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "torch_compat/scope.h"

namespace antegrad::torch_compat {

/// Calls made by an observer are not observed, nor are those of a capture. libtorch swallows
/// exceptions of an observer.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) = 0;
  /// Ends the innermost open call, also one that throws: then without results.
  virtual void after(at::ArrayRef<c10::IValue> results) = 0;
};

/// Notifies `observer` during its lifetime. Observers of enclosing scopes are notified too. Must
/// be destroyed on the thread that made it.
class ObserverScope : Scope {
 public:
  explicit ObserverScope(OpObserver& observer);
  ~ObserverScope();
};

/// Whether the operator calls of this thread are observed.
bool is_observed();

}  // namespace antegrad::torch_compat
