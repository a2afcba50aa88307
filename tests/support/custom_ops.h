#pragma once

/// \file
/// Operators of the library "agtest", registered with TORCH_LIBRARY as in user code, and a journal
/// of their kernels. custom_ops.cpp has the schemas.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>
#include <string>
#include <vector>

namespace antegrad::testing {

/// The log of kernels with effects, in order of their runs. Backward kernels may run on other
/// threads.
class Journal {
 public:
  static Journal& instance();
  void add(std::string line);
  /// Returns the lines so far and clears the journal.
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
