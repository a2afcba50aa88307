#pragma once

/// \file
/// Operators of the library "agtest", as a user of libtorch would register them with TORCH_LIBRARY,
/// and what their kernels noted. See custom_ops.cpp for the schemas.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>
#include <string>
#include <vector>

namespace antegrad::testing {

/// What kernels with effects wrote, in order of their runs. Backward kernels may run on other
/// threads.
class Journal {
 public:
  static Journal& instance();
  void add(std::string line);
  /// The lines so far; the journal is empty afterwards.
  std::vector<std::string> take();

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// The operator "agtest::<name>".
c10::OperatorHandle find_op(const char* name);

/// Calls "agtest::<name>" and returns what it returns.
template <class Signature, class... Args>
auto call_op(const char* name, Args&&... args) {
  return find_op(name).typed<Signature>().call(std::forward<Args>(args)...);
}

}  // namespace antegrad::testing
