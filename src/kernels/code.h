#pragma once

/// \file
/// Compiled code that a process holds.

#include <memory>
#include <set>
#include <string>

namespace antegrad::kernels {

/// A shared library (library.h), or code for a device (device_code.h). Immutable, so any thread may
/// use it.
class Code {
 public:
  Code() = default;
  virtual ~Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  /// Those that it was loaded from; empty if the system does not give them.
  virtual std::string bytes() const = 0;
};

using Libraries = std::set<std::shared_ptr<const Code>>;

}  // namespace antegrad::kernels
