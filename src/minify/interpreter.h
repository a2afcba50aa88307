#pragma once

/// \file
/// Runs a graph call by call: what a graph means, against which every stage is compared.
///
/// Deliberately plain. Each node is one call of its operator through the dispatcher, in order, and
/// all values live to the end. It shares no code with runtime/program.h.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::minify {

/// What is done with each tensor that a node returns.
using Returned = std::function<void(const Node& node, ValueId value, const at::Tensor& tensor)>;

/// Throws MismatchError unless tensors have dtype, device, sizes and strides as `graph` says.
Returned require_metadata(const Graph& graph);

/// Inputs and results as of runtime::Program::run(). Throws what kernels throw, and InputError
/// where the data answer a question otherwise than the graph assumes.
std::vector<at::Tensor> interpret(const Graph& graph, const ops::AttrTables& tables,
                                  const std::vector<at::Tensor>& inputs, const Returned& returned);

}  // namespace antegrad::minify
