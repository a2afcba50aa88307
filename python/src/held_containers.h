#pragma once

/// \file
/// Lists, dictionaries and attributes that a compiled function holds. They are restored if a call
/// with a capture fails.

#include <torch/extension.h>

#include <string>

namespace antegrad::python {

/// The call of a compiled function on this thread. Construction and destruction need the GIL.
class HeldContainers {
 public:
  explicit HeldContainers(py::handle function) : function_(function), outer_(current_) {
    current_ = this;
  }
  ~HeldContainers() { current_ = outer_; }
  HeldContainers(const HeldContainers&) = delete;
  HeldContainers& operator=(const HeldContainers&) = delete;

  /// Records the contents of the containers before the function is captured, once per call.
  static void remember();
  /// The plain values in them, as `changes` below takes them; None if the function was not run.
  py::object values() const;
  /// A line of text that names the values that differ, or "". Values of two calls.
  static std::string changes(const py::object& before, const py::object& now);
  /// Restores the contents. Returns a line of text that names the containers that had changed, or
  /// "".
  std::string restore();

 private:
  static thread_local HeldContainers* current_;
  py::handle function_;
  py::object before_;  // null if the function was not run
  HeldContainers* outer_;
};

}  // namespace antegrad::python
