#pragma once

/// \file
/// Runs a piece of a captured callable as if there were no capture.

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch_compat/keys.h"
#include "torch_compat/tracer_context.h"

namespace antegrad::capture {

/// Hides the capture from this thread for its lifetime: the tracer and all of its dispatch keys.
class OutsideCapture {
 public:
  OutsideCapture() : tracer_(nullptr), keys_(keys()) {}

 private:
  static c10::impl::LocalDispatchKeySet keys() {
    auto now = c10::impl::tls_local_dispatch_key_set();
    now.included_ = now.included_ - torch_compat::capture_keys;
    return now;
  }
  torch_compat::CarriedScope tracer_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace antegrad::capture
