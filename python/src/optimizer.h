#pragma once

/// \file
/// The optimizers of torch.optim, for whole steps.

#include <torch/extension.h>

#include <memory>

#include "held_object.h"
#include "step/optimizer.h"

namespace antegrad::python {

/// What python/antegrad/_optimizers.py knows of an optimizer. Its functions may be called with or
/// without the GIL.
class PythonOptimizer final : public step::Optimizer {
 public:
  explicit PythonOptimizer(py::object adapter);

  step::Layout layout() override;
  step::Update update() const override { return update_; }
  step::ClipFactor clip_factor() const override { return &step::clip_factor_of_python; }
  void note_steps(const std::vector<const step::Parameter*>& parameters) override;
  void step() override;

 private:
  std::shared_ptr<HeldObject> adapter_;
  step::Update update_;
};

}  // namespace antegrad::python
