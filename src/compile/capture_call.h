#pragma once

/// \file
/// Captures one call of the user's callable: for its first program, for an audit, for another
/// backward form.

#include <antegrad/compile.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "compile/backward_variants.h"
#include "guards/origin.h"
#include "runtime/derivative_programs.h"
#include "runtime/kernel_error.h"

namespace antegrad::compiler {

/// The parts of a compiled callable.
struct Callable {
  std::string name;
  std::shared_ptr<void> owner;  ///< keeps the objects alive that `body` refers to
  detail::BodyRef body;
  std::shared_ptr<const torch::nn::Module> module;  ///< may be null
  /// Held while the callable runs for a capture or a check, so that it never runs on two threads at
  /// once. Not held while a capture runs its backward, which may wait for the engine's thread of a
  /// device, which may itself capture. Last in the lock order.
  std::shared_ptr<std::mutex> alone = std::make_shared<std::mutex>();
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  capture::Update update = {};  ///< of a whole step
};

/// Captures the callable on the arguments of a call. Changes no state, and throws the errors of
/// capture::capture. May be called any number of times with the same arguments; the callable runs
/// each time. `held` are tensors that the callable is known to hold; like the module's tensors,
/// they must not be changed.
guards::CapturedCall capture_call(const Callable& callable, const Leaves& arguments,
                                  const capture::Variation& variation = {},
                                  const std::vector<at::Tensor>& held = {});

/// What an input of a derived program stands for.
struct DerivedInput {
  enum class Kind : uint8_t {
    primal,   ///< of the call
    tangent,  ///< of a step
    probe,    ///< of a step: it stands for a differentiable output before it, to have its gradient
    constant,
  } kind = Kind::constant;
  int32_t step = -1;
  int32_t index = -1;
  friend bool operator==(const DerivedInput&, const DerivedInput&) = default;
};

/// A pass with create_graph through a past call, and through the steps before this one.
struct DerivativeStep {
  std::vector<at::Tensor> tangents;  ///< doubles; by differentiable output, some undefined
  std::vector<DerivedInput> wanted = {};
  torch_compat::Autocast autocast = {};
  std::vector<at::Tensor> probes = {};  ///< doubles; by differentiable output
};

/// The callable with the gradients of some steps as further results.
struct DerivedCall {
  capture::Captured captured;
  std::vector<DerivedInput> inputs;  ///< by primal
};

/// Captures a past call with such steps. The form is that of the last backward, which is no step.
using Derive = std::function<DerivedCall(const std::vector<DerivativeStep>& steps,
                                         const ops::BackwardForm& form)>;

/// Further captures of a past call.
struct LaterCaptures {
  Recapture recapture;
  runtime::LineFinder
      line_of;  ///< the line of a node; captures again for each node when first asked
  Derive derive;
  runtime::DerivativeSource derivatives = {};  ///< for create_graph; null: an error
  std::string origins = {};  ///< where nodes come from, for dumps; empty if that is not known
};

/// Keeps everything needed to capture the call again after it has ended, with the answers to
/// questions about data that `captured` assumes and under the current autocast state: the callable,
/// host values, and doubles of the arguments, or weak references to arguments that the callable
/// holds as well. Thread-safe.
LaterCaptures later_captures(const Callable& callable, const Leaves& arguments,
                             const capture::Captured& captured);

}  // namespace antegrad::compiler
