#pragma once

/// \file
/// What makes calls of a compiled loss whole steps: arguments and new values of an optimizer,
/// around calls that a front end makes.

#include <ATen/core/Tensor.h>
#include <antegrad/compile_step.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "step/layout.h"
#include "step/optimizer.h"

namespace antegrad::step {

class WholeStep {
 public:
  /// Throws OptionError for options that mean nothing.
  WholeStep(std::shared_ptr<Optimizer> optimizer, StepOptions options);
  ~WholeStep() = default;
  WholeStep(const WholeStep&) = delete;
  WholeStep& operator=(const WholeStep&) = delete;

  /// Begins a call, whether a program or eager mode will run it.
  void begin();
  /// Adds what a program reads to the arguments of the loss.
  void add_to(Leaves& arguments);
  /// Ends it, after its program ran.
  void end();
  /// Ends it where the loss was computed eagerly, with its gradients. Returns the loss without a
  /// history.
  at::Tensor end_eagerly(const at::Tensor& loss);
  /// For captures of calls that have begun: see detail::StepUpdate. It refers to this object.
  detail::StepUpdate update();

  /// Forgets gradients that were added up.
  void zero_grad();

 private:
  // The sum of a parameter's gradients over calls.
  struct Sum {
    at::Tensor tensor;
    bool is_empty = true;
  };
  using Pairs = std::vector<std::pair<at::Tensor, at::Tensor>>;

  Layout layout_now();
  std::vector<const Parameter*> written() const;
  void note_call(const std::vector<const Parameter*>& written);
  Pairs new_values(const Pairs& gradients, const Tensors& arguments) const;
  Tensors with_sums(Tensors gradients) const;
  Tensors limited(Tensors gradients) const;
  Pairs added_up(const Tensors& gradients) const;
  Pairs updated(const Tensors& gradients, const Tensors& arguments) const;
  void step_with(const Tensors& gradients);

  std::shared_ptr<Optimizer> optimizer_;
  StepOptions options_;
  Layout layout_;                   // of the call that runs, or the last one
  size_t arguments_ = 0;            // tensors among those of its loss
  std::vector<uint32_t> versions_;  // before it, of what it writes for each parameter
  std::unordered_map<const c10::TensorImpl*, Sum> sums_;
  int64_t calls_since_update_ = 0;
};

/// Throws OptionError for what a whole step has no use for. Returns the options.
Options checked(Options options);

}  // namespace antegrad::step
