#pragma once

/// \file
/// Sees the operator calls of this thread while eager code runs, by libtorch's RecordFunction: above
/// autograd, calls that operators make among themselves included.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace antegrad::torch_compat {

/// Calls that an observer makes are seen by none, nor are those of a capture. libtorch swallows what it throws.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) = 0;
  /// Ends the innermost call that has not ended, also one that throws: then without results.
  virtual void after(at::ArrayRef<c10::IValue> results) = 0;
};

/// Tells `observer` for its lifetime; observers of enclosing scopes are told as well. Ends on the thread
/// on which it began.
class ObserverScope {
 public:
  explicit ObserverScope(OpObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
};

}  // namespace antegrad::torch_compat
