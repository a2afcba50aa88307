#pragma once

/// \file
/// The cost of one run of a node, and its time on a machine by a roofline.
///
/// Costs are those of a node by itself, without what fusion saves (fusion/groups.h). Estimates
/// rank decisions; they do not predict times.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

struct NodeCost {
  int64_t flops = 0;  ///< see graph/op_flops.h
  int64_t bytes = 0;  ///< read and written
  int64_t host_bytes =
      0;  ///< moved between device and host; on the host itself, between host and file
  friend bool operator==(const NodeCost&, const NodeCost&) = default;
};

/// `symbols`: values of the graph's symbols, by SymbolId.
///
/// Bytes are those of the elements of its tensors. Each input counts once, however often it is
/// read; an expanded tensor counts the elements in memory. Views and fresh memory (`empty`) move
/// nothing. Operators that read only sizes read nothing. Gathers (`embedding`, `index`) read as
/// much of input 0 as they return.
NodeCost node_cost(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols = {});

/// Bytes moved by reading or writing all of a tensor. 0 for other values.
int64_t moved_bytes(const Value& value, const std::vector<int64_t>& symbols = {});

struct Machine {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double seconds_per_node = 0;  ///< for each node that computes anything
  double host_bytes_per_second = 0;
};

/// A data-centre GPU as models use it: 100 TFLOP/s in half-precision matrix products, a third of
/// the peak; 3 TB/s of memory; 2 microseconds per kernel; 25 GB/s from and to pinned memory.
inline constexpr Machine kGpu{100e12, 3e12, 2e-6, 25e9};
/// Ten cores of a server. Each reaches 100 GFLOP/s in f32 products (measured on an EPYC: 206 with
/// two). Together they reach 100 GB/s of memory (42 measured with two). A call of a small kernel
/// takes 0.8 microseconds there. A file takes 1 GB/s.
inline constexpr Machine kCpu{1e12, 100e9, 1e-6, 1e9};

/// "gpu", "cpu"; nothing for other names.
std::optional<Machine> machine_named(std::string_view name);

/// Seconds of a node with this cost: the longest of computing and moving memory, plus the time per
/// node. A node that does neither takes none.
double seconds(const NodeCost& cost, const Machine& machine);

}  // namespace antegrad
