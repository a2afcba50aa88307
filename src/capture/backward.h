#pragma once

/// \file
/// The backward half of a capture: the autograd engine runs on stand-ins.

#include <vector>

#include "capture/tracer.h"
#include "ops/backward_form.h"

namespace antegrad::capture {

/// What the backward adds to a joint graph's records.
struct Backward {
  std::vector<Input> tangents;
  std::vector<Output> gradients;
};

/// Runs the backward of all differentiable `outputs` (the tensors that belong to them are
/// `tensors`) with tangents of that form, and records it. There is a gradient, undefined perhaps,
/// for each root that their history leads to.
Backward run_backward(Tracer& tracer, const std::vector<at::Tensor>& tensors,
                      const std::vector<Output>& outputs, const ops::BackwardForm& form);

/// Those gradients, without values, of a backward that failed.
std::vector<Output> unknown_gradients(const Tracer& tracer, const std::vector<at::Tensor>& tensors,
                                      const std::vector<Output>& outputs);

}  // namespace antegrad::capture
