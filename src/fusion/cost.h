#pragma once

/// \file
/// What one run of a node costs, and how long a machine takes for it: a roofline.
///
/// Counts are of a node by itself: what fusion saves is not in it (fusion/groups.h). Estimates rank
/// decisions; they do not foretell times.

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
      0;  ///< moved between the device and the host; where that is the same, the host and a file
  friend bool operator==(const NodeCost&, const NodeCost&) = default;
};

/// `symbols`: values of the graph's symbols, by SymbolId.
///
/// Bytes are those of the elements of its tensors, each input once, however often it is read; of an
/// expanded tensor those that there are in memory. Views and fresh memory (`empty`) move nothing,
/// operators that read only sizes read nothing, and gathers (`embedding`, `index`) read as much of
/// input 0 as they return.
NodeCost node_cost(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols = {});

/// Bytes that reading or writing all of a tensor moves. 0 for other values.
int64_t moved_bytes(const Value& value, const std::vector<int64_t>& symbols = {});

struct Machine {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double seconds_per_node = 0;  ///< of each node that computes anything
  double host_bytes_per_second = 0;
};

/// A GPU of a data centre as models use it: 100 TFLOP/s in matrix products of half precision, a third of the
/// peak, 3 TB/s of memory, 2 microseconds for a kernel, and 25 GB/s from and to pinned memory.
inline constexpr Machine kGpu{100e12, 3e12, 2e-6, 25e9};
/// Ten cores of a server: each reaches 100 GFLOP/s in f32 products (measured on an EPYC: 206 with two), and
/// together 100 GB/s of memory (42 measured with two); a call of a small kernel takes 0.8 microseconds
/// there; a file takes 1 GB/s.
inline constexpr Machine kCpu{1e12, 100e9, 1e-6, 1e9};

/// "gpu", "cpu"; nothing for other names.
std::optional<Machine> machine_named(std::string_view name);

/// Seconds that a node of this cost takes: the longest of computing and moving memory, and the time of a node. A node
/// that does neither takes none.
double seconds(const NodeCost& cost, const Machine& machine);

}  // namespace antegrad
