#pragma once

/// \file
/// Captures a callable with its backward as one joint graph.
///
/// The callable runs on stand-ins; a second time, if the first run writes memory that several
/// tensors share. Then libtorch's autograd engine runs its backward on the same stand-ins. No real
/// values are computed, and no outside state changes: tensors, gradients, generators and
/// thread-local state stay as they were, whether capture succeeds or throws.

#include <ATen/core/Tensor.h>
#include <antegrad/compile.h>

#include <functional>
#include <string>
#include <vector>

#include "capture/derivative.h"
#include "capture/placeholder.h"
#include "capture/session.h"
#include "ops/answer.h"
#include "ops/backward_form.h"

namespace antegrad::capture {

/// The callable over flat lists of tensors; entries may be undefined.
using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// Properties in which two captures of one call may differ.
struct Variation {
  ops::BackwardForm backward;  ///< the backward form to capture
  /// Assumed answers to the first questions about data. Request::evaluate answers the others.
  std::vector<ops::Answer> answers;
  bool has_data = true;  ///< false if doubles replace the arguments
  /// By argument leaf: whether it is a number that must be a constant of the graph. May be shorter.
  std::vector<bool> fixed_numbers = {};
  /// How an earlier capture of the call used them.
  std::vector<PlaceholderUse> placeholders = {};
  BytesAtCall bytes_at_call = {};
};

/// After the backward, in the capture: makes new values of inputs from their gradients. Inputs are
/// real tensors, which operators may be given as they are; gradients, defined ones alone, and new
/// values belong to the capture. What it receives last are the arguments of the call.
using Update = detail::StepUpdate;

struct Request : World {
  /// Tensors among the arguments of the call. Those that are numbers (ops/number.h) reach the body
  /// as they are, and number_in_leaf() reads them.
  std::vector<at::Tensor> arguments;
  Body body;
  /// Passes with create_graph, one after another, whose gradients are results as well. Their
  /// tangents and probes are the last of `arguments`, and do not reach the body. What the callable
  /// writes into inputs is dropped then.
  std::vector<Derivative> derivatives = {};
  Variation variation;
  /// If there is one, the graph has these new values in place of gradients (Output::update).
  Update update = {};
};

/// Throws CaptureError and its subclasses, and the exceptions of the callable.
Captured capture(const Request& request);

/// The source line that recorded node `node` of the request's joint graph; "" if unknown. Runs the
/// callable again, like a capture. For error messages.
std::string find_line(const Request& request, int32_t node);

}  // namespace antegrad::capture
