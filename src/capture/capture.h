#pragma once

/// \file
/// Captures a callable with its backward as one joint graph.
///
/// The callable runs on stand-ins (again, where the first run shows that it writes memory which
/// several tensors share), then libtorch's autograd engine runs its backward on the same stand-ins.
/// Nothing real is computed and nothing outside changes: tensors, gradients, generators and
/// thread-local state are as before, whether capture succeeds or throws.

#include <ATen/core/Tensor.h>
#include <antegrad/options.h>

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "capture/data_questions.h"
#include "capture/infer.h"
#include "capture/shared_memory.h"
#include "graph/graph.h"
#include "ops/answer.h"
#include "ops/attrs.h"
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

struct Request {
  std::string name;                   ///< of the graph
  std::vector<at::Tensor> arguments;  ///< tensor leaves of the call
  Body body;
  /// Frees what the body left to a garbage collector, what is young or `all`; null where there is
  /// none.
  void (*collect)(bool all) = nullptr;
  /// Where tensors that the callable holds may come from: name and kind by tensor.
  std::function<Source(const at::Tensor&)> source_of;
  /// A tensor of the same kind whose storage is the given one.
  Holder holder_of;
  /// Answers questions about the data of this call; null where its data are gone.
  Evaluate evaluate;
  /// Tensors that must be untouched afterwards even if no operator meets them (module slots).
  std::vector<at::Tensor> watched;
  Variation variation;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
};

struct Captured {
  Graph joint;
  ops::AttrTables tables;
  /// Real tensors behind the leading primals of joint.inputs, same order. Constants are owned; the
  /// caller decides how to hold the others.
  std::vector<at::Tensor> primals;
  std::vector<ops::Question> questions;  ///< about data, in order, and what was assumed
  /// By primal: the tensor through which it is found (Source::via), undefined for most.
  std::vector<at::Tensor> holders;
  /// By primal: the primal that it is a view of by autograd in this capture, -1 for most.
  std::vector<int32_t> follows;
  /// By argument leaf: index in joint.inputs, -1 for an undefined leaf. Equal for the same tensor.
  std::vector<int32_t> leaf_inputs;
  /// By argument leaf: whether the callable also holds it, or something that shares its memory.
  std::vector<bool> held_arguments;
  InferCounts counts;
  /// Why there is no backward although results require grad; raised when backward is asked for.
  std::exception_ptr backward_error;
  double milliseconds = 0;
};

/// Throws CaptureError and its kinds, and whatever the callable throws.
Captured capture(const Request& request);

/// The source line that recorded node `node` of the request's joint graph, "" when it cannot be
/// told. Runs the callable again, as a capture does: for error messages.
std::string find_line(const Request& request, int32_t node);

/// Whether a capture runs on this thread.
bool capturing();

}  // namespace antegrad::capture
