#pragma once

/// \file
/// One call of the user's callable, captured: for its first program, for an audit, for another
/// backward.

#include <antegrad/compile.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "compile/backward_variants.h"
#include "guards/origin.h"
#include "runtime/kernel_error.h"

namespace antegrad::compiler {

/// What a compiled callable is.
struct Callable {
  std::string name;
  std::shared_ptr<void> owner;  ///< keeps what `body` refers to
  detail::BodyRef body;
  std::shared_ptr<const torch::nn::Module> module;  ///< may be null
  /// Held while the callable runs to be captured or in a check, so that it does not meet itself on
  /// other threads; not while a capture runs its backward, which may wait for a device's engine
  /// thread, which may capture as well. Last in the order of locks.
  std::shared_ptr<std::mutex> alone = std::make_shared<std::mutex>();
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
};

/// Captures the callable on the arguments of a call. Leaves no trace, and throws what
/// capture::capture does. May be called for the same arguments any number of times; the callable
/// runs each time. `held` are tensors that the callable is known to hold: like the modules' tensors
/// they must be untouched.
guards::CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                                  const capture::Variation& variation = {},
                                  const std::vector<at::Tensor>& held = {});

/// What a captured call can be asked after it is over.
struct LaterCaptures {
  Recapture recapture;
  runtime::LineFinder
      line_of;  ///< of a node; captures again for each node that it is asked for first
};

/// Keeps what is needed to capture the call again after it is over, with the answers to questions
/// about data that `captured` assumes and under the autocast state of now: the callable, host
/// values, and doubles of the arguments; or, weakly, those themselves that the callable holds as
/// well. Thread-safe.
LaterCaptures later_captures(const Callable& callable, const Leaves& arguments,
                             const capture::Captured& captured);

}  // namespace antegrad::compiler
