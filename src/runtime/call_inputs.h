#pragma once

/// \file
/// The inputs of a call as they were when it began, for passes with create_graph.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph/call_plan.h"
#include "runtime/generator_states.h"
#include "runtime/kept_variable.h"

namespace antegrad::runtime {

class CallInputs {
 public:
  /// Before the forward. Copies what it writes.
  CallInputs(const CallPlan& plan, const std::vector<at::Tensor>& primals,
             const std::vector<at::Generator>& generators);

  /// After the forward: keeps the others as they are. Hooks on saved tensors must be off.
  void keep(const std::vector<at::Tensor>& primals);

  /// By primal, for the node that keeps them. Throws what KeptVariable::unpack() throws, and
  /// BackwardError if the call wrote one that requires grad.
  std::vector<at::Tensor> primals(const torch_compat::NodePtr& node) const;
  const GeneratorStates& generators() const { return generators_; }

 private:
  struct Kept {
    at::Tensor raw;  // instead of the variable: a copy, or a tensor of inference mode
    std::optional<KeptVariable> variable;
  };
  std::vector<Kept> kept_;  // by primal
  GeneratorStates generators_;
  bool wrote_variable_ = false;  // one that requires grad
  bool resizes_ = false;         // allocates memory of an input
};

/// While it lives, generators have the states that a call began with. No other thread may draw from
/// them meanwhile.
class GeneratorsOfCall {
 public:
  GeneratorsOfCall(const CallInputs& inputs, const std::vector<at::Generator>& generators)
      : before_(generators) {
    inputs.generators().restore();
  }
  ~GeneratorsOfCall() { before_.restore(); }
  GeneratorsOfCall(const GeneratorsOfCall&) = delete;
  GeneratorsOfCall& operator=(const GeneratorsOfCall&) = delete;

 private:
  GeneratorStates before_;
};

}  // namespace antegrad::runtime
