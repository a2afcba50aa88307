#pragma once

/// \file
/// The state of automatic mixed precision on this thread.

#include <c10/core/ScalarType.h>

#include "torch_compat/scope.h"

namespace antegrad::torch_compat {

struct Autocast {
  bool cpu = false;
  bool cuda = false;
  c10::ScalarType cpu_dtype = c10::ScalarType::BFloat16;  ///< meaningless while `cpu` is off
  c10::ScalarType cuda_dtype = c10::ScalarType::Half;     ///< meaningless while `cuda` is off

  static Autocast now();
  friend bool operator==(const Autocast& a, const Autocast& b) {
    return a.cpu == b.cpu && a.cuda == b.cuda && (!a.cpu || a.cpu_dtype == b.cpu_dtype) &&
           (!a.cuda || a.cuda_dtype == b.cuda_dtype);
  }
};

/// Sets that state on the thread for the lifetime of the scope.
class AutocastScope : Scope {
 public:
  explicit AutocastScope(const Autocast& autocast);
  ~AutocastScope();

 private:
  Autocast before_;
};

/// The same for recomputation. Like a separate torch.autocast it forgets the casts of parameters
/// made inside at its end, unless the thread is inside another one.
class AutocastRegion : Scope {
 public:
  AutocastRegion(const Autocast& autocast, bool caches);
  ~AutocastRegion();

 private:
  AutocastScope scope_;
  bool cached_before_;
};
/// Whether this thread's autocast caches casts of parameters.
bool autocast_caches();

}  // namespace antegrad::torch_compat
