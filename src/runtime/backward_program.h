#pragma once

/// \file
/// A backward program, and the key that says for which backward pass it is.

#include <vector>

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "ops/attrs.h"
#include "ops/backward_form.h"
#include "runtime/program.h"

namespace antegrad::runtime {

/// What a backward program is made for.
struct BackwardKey {
  ops::BackwardForm form;
  std::vector<bool> wanted;  ///< by gradient, in the order of CallPlan::gradients
  /// The saved tensors are given up, so that intermediates among them may be written over.
  bool releases = true;
  friend bool operator==(const BackwardKey&, const BackwardKey&) = default;
};

/// A backward graph as the partitioner made it, with what its attributes refer to.
struct BackwardGraph {
  Graph graph;
  ops::AttrTables tables;
  ForwardValues forward_values = {};
};

/// A backward graph, ready to run.
struct BackwardProgram {
  /// Where an input comes from.
  struct Input {
    enum class Kind : uint8_t { saved, tangent, token } kind;
    int32_t index;  ///< slot, or tangent
  };

  bool reads_saved() const;

  Program program;
  std::vector<Input> inputs;
  std::vector<int32_t> gradients;  ///< by gradient: output of the program, -1 for an undefined one
};

}  // namespace antegrad::runtime
