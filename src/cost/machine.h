#pragma once

/// \file
/// The time of nodes on a machine: by a roofline, by curves that were measured on it, or as each
/// node was measured.
///
/// Times by a roofline rank decisions; they do not predict times.

#include <cstdint>
#include <string_view>
#include <vector>

#include "cost/measurements.h"
#include "cost/node_cost.h"
#include "cost/rates.h"
#include "graph/graph.h"

namespace antegrad {

struct Machine {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  double seconds_per_node = 0;  ///< for each node that computes anything
  double host_bytes_per_second = 0;
  double functions_per_second = 0;  ///< results of tanh, exp and the like in generated loops
  double draws_per_second = 0;      ///< random numbers in generated loops
  /// Time for each byte of a step's peak where memory is returned to the system: page faults.
  double seconds_per_fresh_byte = 0;
  Rates rates = {};  ///< measured; replace the above for the classes of kernels that they have
};

/// A data-centre GPU as models use it: 100 TFLOP/s in half-precision matrix products, a third of
/// the peak; 3 TB/s of memory; 2 microseconds per kernel; 25 GB/s from and to pinned memory;
/// functions and draws take less time than writing their results.
inline const Machine kGpu{.flops_per_second = 100e12,
                          .bytes_per_second = 3e12,
                          .seconds_per_node = 2e-6,
                          .host_bytes_per_second = 25e9,
                          .functions_per_second = 2e12,
                          .draws_per_second = 2e12};
/// Ten cores of a server. Each reaches 100 GFLOP/s in f32 products (measured on an EPYC: 206 with
/// two). Together they reach 100 GB/s of memory (42 measured with two). A call of a small kernel
/// takes 0.8 microseconds there. A file takes 1 GB/s. In loops that Inductor generates, one of its
/// cores takes 0.4 to 1.6 ns for a function (`exp`, `tanh`) and 14 ns for a draw. A page fault
/// takes 0.9 microseconds, and glibc's allocator returns about half of a step's peak: 110 ps for
/// each byte of it on two cores.
inline const Machine kCpu{.flops_per_second = 1e12,
                          .bytes_per_second = 100e9,
                          .seconds_per_node = 1e-6,
                          .host_bytes_per_second = 1e9,
                          .functions_per_second = 10e9,
                          .draws_per_second = 0.7e9,
                          .seconds_per_fresh_byte = 35e-12};

/// "gpu", "cpu". Throws OptionError for other names.
const Machine& machine_named(std::string_view name);

/// Seconds by the roofline: the longest of computing and moving memory.
double roofline(const NodeCost& cost, const Machine& machine);

/// Seconds of a node with this cost: by the roofline, plus the time per node. A node that neither
/// computes nor moves memory takes none.
double seconds(const NodeCost& cost, const Machine& machine);

/// The machine that runs a graph, for machine_named(): "gpu" if a tensor is on a CUDA device,
/// otherwise "cpu".
std::string_view machine_of(const Graph& graph);

/// The named machine, or that of a graph, machine_of(), if the name is empty.
const Machine& machine_named(std::string_view name, const Graph& graph);

/// Seconds by position in Graph::nodes: as measured, otherwise by the curves of the machine,
/// otherwise by its roofline. `symbols` are the values of the graph's symbols, by SymbolId.
///
/// On a device that computes while the host goes on, a step takes the longer of both: if all calls
/// together take the host longer than all kernels the device, each node takes at least its call.
std::vector<double> node_seconds(const Graph& graph, const std::vector<int64_t>& symbols,
                                 const Machine& machine, const Measurements& measured = {});

/// The same on machine_named(machine, graph).
std::vector<double> node_seconds(const Graph& graph, const std::vector<int64_t>& symbols = {},
                                 std::string_view machine = {}, const Measurements& measured = {});

}  // namespace antegrad
