#pragma once

/// \file
/// Lists, dictionaries and attributes that a compiled function holds: put back when a call fails
/// that captured it.

#include <torch/extension.h>

#include <string>

namespace antegrad::python {

/// The call of a compiled function that runs on this thread. With the GIL where it is made, and
/// where it dies.
class HeldContainers {
 public:
  explicit HeldContainers(py::handle function) : function_(function), outer_(current_) {
    current_ = this;
  }
  ~HeldContainers() { current_ = outer_; }
  HeldContainers(const HeldContainers&) = delete;
  HeldContainers& operator=(const HeldContainers&) = delete;

  /// The function is about to be run to be captured. Remembers what is in its containers, the first
  /// time in a call.
  static void remember();
  /// Puts that back. Returns a line of text that names what had changed, or "".
  std::string restore();

 private:
  static thread_local HeldContainers* current_;
  py::handle function_;
  py::object before_;  // null: the function was not run
  HeldContainers* outer_;
};

}  // namespace antegrad::python
