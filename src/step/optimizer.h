#pragma once

/// \file
/// The optimizer of a whole step, of whatever front end.

#include <ATen/core/Tensor.h>

#include <vector>

#include "step/arithmetic.h"
#include "step/clipping.h"
#include "step/layout.h"

namespace antegrad::step {

class Optimizer {
 public:
  Optimizer() = default;
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The parameters that need a gradient, as they are now. A parameter without steps gets tensors
  /// for its state, the same ones in each call until it has had a step. Throws InputError for what
  /// there is no program for.
  virtual Layout layout() = 0;
  virtual Update update() const = 0;
  /// As the language of its front end computes it.
  virtual ClipFactor clip_factor() const = 0;
  /// Notes one more step of each of these parameters, whose tensors have been written.
  virtual void note_steps(const std::vector<const Parameter*>& parameters) = 0;
  /// A step from `.grad`, by the optimizer itself.
  virtual void step() = 0;
};

}  // namespace antegrad::step
