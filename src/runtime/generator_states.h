#pragma once

/// \file
/// States of random generators, so that a call that fails leaves them as they were.

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

/// The state of a generator, bytes on the CPU; takes its lock.
at::Tensor state_of(at::Generator generator);
/// Gives it that state; takes its lock.
void set_state(at::Generator generator, const at::Tensor& state);
bool same_state(const at::Tensor& a, const at::Tensor& b);

/// What some generators were like when this was made.
class GeneratorStates {
 public:
  explicit GeneratorStates(const std::vector<at::Generator>& generators);
  void restore() const;

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_;
};

}  // namespace antegrad::runtime
