#pragma once

/// \file
/// Captures a callable with its backward as one joint graph.
///
/// The callable runs once on stand-ins, then libtorch's autograd engine runs its backward on the same
/// stand-ins. Nothing real is computed and nothing outside changes: tensors, gradients, generators
/// and thread-local state are as before, whether capture succeeds or throws.

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "capture/infer.h"
#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::capture {

/// The callable over flat lists of tensors; entries may be undefined.
using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct Request {
  std::string name;                   ///< of the graph
  std::vector<at::Tensor> arguments;  ///< tensor leaves of the call
  Body body;
  /// Where tensors that the callable holds may come from: name and kind by tensor.
  std::function<Source(const at::Tensor&)> source_of;
  /// Tensors that must be untouched afterwards even if no operator meets them (module slots).
  std::vector<at::Tensor> watched;
};

struct Captured {
  Graph joint;
  ops::AttrTables tables;
  /// Real tensors behind the leading primals of joint.inputs, same order. Constants are owned; the
  /// caller decides how to hold the others.
  std::vector<at::Tensor> primals;
  /// By argument leaf: index in joint.inputs, -1 for an undefined leaf. Equal for the same tensor.
  std::vector<int32_t> leaf_inputs;
  InferCounts counts;
  /// Why there is no backward although results require grad; raised when backward is asked for.
  std::exception_ptr backward_error;
  double milliseconds = 0;
};

/// Throws CaptureError and its kinds, and whatever the callable throws.
Captured capture(const Request& request);

/// The source line that recorded node `node` of the request's joint graph, "" when it cannot be told.
/// Runs the callable once more, as a capture does: for error messages.
std::string find_line(const Request& request, int32_t node);

/// Whether a capture runs on this thread.
bool capturing();

}  // namespace antegrad::capture
