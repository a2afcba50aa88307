#pragma once

/// \file
/// Recomputes a result that is a view from the tensor that the caller holds.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"
#include "ops/op_table.h"

namespace antegrad::runtime {

/// The views that lead from one value of a graph to another one. Immutable; thread-safe.
class ViewSteps {
 public:
  ViewSteps() = default;
  /// The views from value `from` to `to`, which shares its memory. If the graph has no chain of
  /// views between them, the steps start with the sizes, strides and offset of `to`, or of a value
  /// that `to` is a view of, in the dtype of `from`.
  ViewSteps(const Graph& graph, const ops::AttrTables& tables, ValueId from, ValueId to);

  /// Results of operators with several, by tensor and node, so that all are taken from one call, as
  /// in the callable.
  using Made = std::map<std::pair<const c10::TensorImpl*, int32_t>, std::vector<at::Tensor>>;

  /// A new tensor that shows `tensor`, made through the dispatcher: with autograd if that is
  /// enabled.
  at::Tensor apply(at::Tensor tensor, Made& made) const;

 private:
  struct Step {
    const ops::OpEntry* entry;
    std::vector<c10::IValue> arguments;  // those after the tensor
    size_t output;                       // for operators with several results
    int32_t node;
  };
  static Step step_of(const Node& node, ValueId value, const ops::AttrTables& tables);

  std::vector<Step> steps_;
};

}  // namespace antegrad::runtime
