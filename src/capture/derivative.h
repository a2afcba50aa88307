#pragma once

/// \file
/// Gradients as further results of a capture: what create_graph gives.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <optional>
#include <vector>

#include "torch_compat/autocast.h"

namespace antegrad::capture {

class Tracer;

/// A backward pass with create_graph from all that the callable, and passes before this one,
/// returned. Its gradients become results.
struct Derivative {
  /// An input, or a result by its place among differentiable outputs: see `cuts`.
  struct Wanted {
    at::Tensor input = {};
    int32_t output = -1;
  };
  /// By differentiable output, hidden bases included: arguments of the capture, some undefined.
  std::vector<at::Tensor> tangents = {};
  std::vector<Wanted> wanted = {};
  torch_compat::Autocast autocast = {};  ///< its state during the pass
  /// Of the last pass, by differentiable output: an argument that stands for it. The backward has
  /// gradients of those that the Cut names.
  std::vector<at::Tensor> probes = {};

  size_t arguments() const { return tangents.size() + probes.size(); }
};

/// Results from which the gradients of a pass were computed whose tangents have a history, which
/// may lead to the results. A later pass stops there: what arrives from these gradients is a
/// gradient of the result, and is added where all others of that result arrive. In its place goes
/// on the tangent of the result, which is the whole gradient then.
struct Cut {
  struct Result {
    size_t place;       ///< among differentiable outputs
    at::Tensor tensor;  ///< wrapper
    int32_t probe;      ///< root, -1 for none
  };
  size_t outputs = 0;  ///< differentiable ones before the gradients
  std::vector<Result> results;
};

/// A pass over the history of differentiable outputs, which stops where the cut says.
struct CutPass {
  struct Start {
    size_t place;  ///< among differentiable outputs
    torch::autograd::Edge edge;
    at::Tensor tangent;
  };
  std::vector<Start> starts;
  std::vector<torch::autograd::Edge> targets;
  bool create_graph = false;

  struct Gradients {
    std::vector<at::Tensor> of_targets;
    std::vector<at::Tensor> of_results;  ///< by Cut::results
  };
  Gradients run(const Cut& cut) const;
};

/// Runs the pass on stand-ins, whose history goes on. Adds a gradient for each wanted tensor to the
/// results; undefined where there is none. `leaf`: index of the first tangent among the arguments.
/// Throws CaptureError for results that do not exist as they are: inputs that got a history.
void add_gradients(Tracer& tracer, const Derivative& derivative, int32_t leaf,
                   std::vector<at::Tensor>& results);

}  // namespace antegrad::capture
