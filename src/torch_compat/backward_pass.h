#pragma once

/// \file
/// Takes over the backward passes of libtorch's engine, which stay ordinary passes: of one graph
/// task, on the thread that asked, with its callbacks and errors.

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "torch_compat/autograd_node.h"

namespace antegrad::torch_compat {

/// A node of a pass.
struct PassNode {
  NodePtr node;
  /// False if it does not run: a gradient that is asked for arrives at it, and leads nowhere else.
  bool runs = true;
  /// Gradients that are asked for: the input at which one arrives, and its place among them.
  std::vector<std::pair<int32_t, int32_t>> asked = {};
  /// By edge: the place of the node that it leads to, -1 where no gradient is wanted.
  std::vector<int32_t> next = {};
};

/// One backward pass, before its first node has run.
struct BackwardPass {
  torch::autograd::GraphTask& task;
  std::vector<PassNode> nodes;  ///< in the order in which the engine runs them
  /// What arrives at the inputs of the first one.
  torch::autograd::variable_list tangents;

  bool keeps_graph() const { return task.keep_graph_; }
  /// Hands out a gradient that is asked for.
  void give(int32_t place, at::Tensor gradient);
};

/// Runs a whole pass, inside of it: grad mode and other thread-local state are those of its nodes.
using RunPass = void (*)(BackwardPass& pass);

/// From now on `run` runs the passes of this process that start at libtorch's default engine, but
/// those that make a graph (create_graph), that detect anomalies, that involve several devices or
/// streams, or that belong to a capture. Null: libtorch runs them all.
void take_backward_passes(RunPass run);
/// Passes so far that were left to libtorch while there was such a function, by the reason.
std::map<std::string, int64_t> passes_left_to_libtorch();
/// Counts one that never came here, as from Python.
void note_left_pass(const std::string& reason);

/// Passes that this thread starts are left to libtorch while the sum of all changes is above 0.
void leave_passes(int change);

}  // namespace antegrad::torch_compat
