#pragma once

/// \file
/// The generators of a graph, and their states, so that a call that fails leaves them as they were.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::runtime {

/// The generator of that number, default ones of devices included.
at::Generator generator_of(const Graph& graph, const ops::AttrTables& tables, size_t index);

/// The generators that a graph draws from, default ones of devices included.
std::vector<at::Generator> generators_of(const Graph& graph, const ops::AttrTables& tables);

/// What some generators were like when this was made.
class GeneratorStates {
 public:
  explicit GeneratorStates(const std::vector<at::Generator>& generators);
  /// Lets those of a CUDA graph be whose capture is over, or has failed.
  void restore() const;

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_;
};

}  // namespace antegrad::runtime
