#pragma once

/// \file
/// Captures a callable with its backward as one joint graph.
///
/// The callable runs on stand-ins (again, where the first run shows that it writes memory which
/// several tensors share), then libtorch's autograd engine runs its backward on the same stand-ins.
/// Nothing real is computed and nothing outside changes: tensors, gradients, generators and
/// thread-local state are as before, whether capture succeeds or throws.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "capture/session.h"
#include "ops/answer.h"
#include "ops/backward_form.h"

namespace antegrad::capture {

/// The callable over flat lists of tensors; entries may be undefined.
using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// What may differ between two captures of one call.
struct Variation {
  ops::BackwardForm backward;  ///< which backward to capture
  /// What to assume of the first questions about data; further ones are put to Request::evaluate.
  std::vector<ops::Answer> answers;
  bool has_data = true;  ///< false where doubles stand for arguments
};

struct Request : World {
  std::vector<at::Tensor> arguments;  ///< tensor leaves of the call
  Body body;
  Variation variation;
};

/// Throws CaptureError and its kinds, and whatever the callable throws.
Captured capture(const Request& request);

/// The source line that recorded node `node` of the request's joint graph, "" when it cannot be
/// told. Runs the callable again, as a capture does: for error messages.
std::string find_line(const Request& request, int32_t node);

}  // namespace antegrad::capture
