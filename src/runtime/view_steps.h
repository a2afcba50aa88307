#pragma once

/// \file
/// How a result that is a view is made again from the tensor that the caller holds.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "ops/op_table.h"

namespace antegrad::runtime {

/// The views that lead from one value of a graph to another. Immutable; thread-safe.
class ViewSteps {
 public:
  ViewSteps() = default;
  /// From value `from` to `to`, which shows its memory. Where no chain of views in the graph leads
  /// from one to the other, it starts with the sizes, strides and offset of `to`, or of what `to`
  /// is a view of, in the dtype of `from`.
  ViewSteps(const Graph& graph, const ops::AttrTables& tables, ValueId from, ValueId to);

  /// Tensors that operators with several results have made, by their tensor and node, so that all
  /// are taken from one call, as they were in the callable.
  using Made = std::map<std::pair<const c10::TensorImpl*, int32_t>, std::vector<at::Tensor>>;

  /// A new tensor that shows `tensor`, by the dispatcher: with autograd where that is on.
  at::Tensor apply(at::Tensor tensor, Made& made) const;

 private:
  struct Step {
    const ops::OpEntry* entry;
    std::vector<c10::IValue> arguments;  // behind the tensor
    size_t output;                       // of operators that return several
    int32_t node;
  };
  static Step step_of(const Node& node, ValueId value, const ops::AttrTables& tables);

  std::vector<Step> steps_;
};

}  // namespace antegrad::runtime
