#pragma once

/// \file
/// The generators of a graph and their states, which a failed call must restore.

#include <ATen/core/Generator.h>

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "ops/attrs.h"

namespace antegrad::runtime {

/// The generator with this index; may be the default one of a device.
at::Generator generator_of(const Graph& graph, const ops::AttrTables& tables, size_t index);

/// The generators that a graph draws from, including default ones of devices.
std::vector<at::Generator> generators_of(const Graph& graph, const ops::AttrTables& tables);

/// A snapshot of generator states. Not in tensors: a call that may have to restore them is to hold
/// no more of libtorch's memory than eager.
class GeneratorStates {
 public:
  explicit GeneratorStates(const std::vector<at::Generator>& generators);
  /// Skips states of a CUDA graph whose capture has ended or failed.
  void restore() const;

 private:
  std::vector<at::Generator> generators_;
  std::vector<std::vector<uint8_t>> states_;
};

}  // namespace antegrad::runtime
