#pragma once

/// \file
/// Autocast for a scope.

#include <ATen/autocast_mode.h>

namespace antegrad::testing {

/// Of a device, in its usual type. Ends with the scope, also when that throws.
class AutocastOn {
 public:
  explicit AutocastOn(at::DeviceType device) : device_(device) {
    at::autocast::set_autocast_enabled(device_, true);
  }
  ~AutocastOn() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  AutocastOn(const AutocastOn&) = delete;
  AutocastOn& operator=(const AutocastOn&) = delete;

 private:
  at::DeviceType device_;
};

}  // namespace antegrad::testing
