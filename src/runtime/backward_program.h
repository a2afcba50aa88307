#pragma once

/// \file
/// A backward program, and the key of the backward form that it is for.

#include <memory>
#include <vector>

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "ops/attrs.h"
#include "ops/backward_form.h"
#include "runtime/program.h"

namespace antegrad::runtime {

/// The backward form that a program is made for.
struct BackwardKey {
  ops::BackwardForm form;
  std::vector<bool> wanted;  ///< by gradient, in the order of CallPlan::gradients
  /// Whether the saved tensors are released, so that intermediates among them may be overwritten.
  bool releases = true;
  friend bool operator==(const BackwardKey&, const BackwardKey&) = default;
};

/// A backward graph from the partitioner, with the tables that its attributes refer to.
struct BackwardGraph {
  Graph graph;
  ops::AttrTables tables;
  ForwardValues forward_values = {};
  std::vector<GeneratedKernel> kernels = {};  ///< of generated nodes, by place
};

/// A backward graph, ready to run.
struct BackwardProgram {
  /// The source of an input.
  struct Input {
    enum class Kind : uint8_t { saved, tangent, token } kind;
    int32_t index;  ///< index of the slot or tangent
  };

  bool reads_saved() const;
  /// The memory that it keeps, see Program::bytes().
  int64_t bytes() const;

  Program program;
  std::vector<Input> inputs;
  std::vector<int32_t> gradients;  ///< by gradient: the output of the program, -1 if undefined
};

/// Runs it on one tensor per input, in order. The forward checks only those answers of data on
/// which its results depend; throws BackwardError where others differ.
std::vector<at::Tensor> run(const BackwardProgram& program, std::vector<at::Tensor> inputs,
                            const LineFinder& lines);

/// Prepares a backward graph of a call to run. `plan` must save the saved inputs of the graph. For
/// `like`, `kernels` and `graphs` see Program.
std::shared_ptr<const BackwardProgram> backward_program(
    const CallPlan& plan, const Graph& graph, const ops::AttrTables& tables,
    const ForwardValues& forward_values, AliasCheck aliases, const BackwardProgram* like = nullptr,
    std::span<const GeneratedKernel> kernels = {}, std::shared_ptr<GraphCounts> graphs = nullptr);

}  // namespace antegrad::runtime
