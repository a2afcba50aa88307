#pragma once

/// \file
/// The backward half of a capture: runs the autograd engine on stand-ins.

#include <vector>

#include "capture/capture.h"
#include "capture/tracer.h"

namespace antegrad::capture {

/// Records that the backward adds to a joint graph.
struct Backward {
  std::vector<Input> tangents;
  std::vector<Output> gradients;
};

/// Runs and records the backward of all differentiable `outputs`, whose tensors are `tensors`, in
/// the form that is requested. There is a gradient, possibly undefined, for each root that their
/// history leads to; with Request::update, a new value for each root that it names instead.
Backward run_backward(Tracer& tracer, const std::vector<at::Tensor>& tensors,
                      const std::vector<Output>& outputs, const Request& request);

/// The same gradients without values, for a backward that failed.
std::vector<Output> unknown_gradients(const Tracer& tracer, const std::vector<at::Tensor>& tensors,
                                      const std::vector<Output>& outputs);

}  // namespace antegrad::capture
