#pragma once

/// \file
/// Plans the partition of a joint graph that PyTorch traced, for the partitioner that the Python
/// package gives to AOTAutograd. PyTorch's graph is split there, as planned here.

#include <cstdint>
#include <string>
#include <string_view>

#include "partition/partitioner.h"

namespace antegrad {

/// How the nodes of a plan will run.
enum class ExportedKernels : uint8_t {
  one_by_one,  ///< a kernel for each node
  /// Kernels are generated: results of fused nodes are in memory only if they are saved
  /// (fusion/fused_nodes.h). A kernel may run later than planned, to be merged with another one.
  generated,
  generated_in_order,  ///< the same, and all kernels run in the plan's order
};

/// `exported`: the joint graph in JSON (import_json.h). Returns a JSON object, in which nodes are
/// indices of the file's nodes:
///
/// - `saved`: pairs of a value and its node;
/// - `forward`: the nodes that the forward runs;
/// - `backward`: the nodes that the backward runs, in its order, each with the values that it reads
///   (`in`) and makes (`out`, -1 for an undefined one). A node that runs several times is listed
///   that often, and makes other values each time;
/// - `peak_bytes`: of a step, predicted;
/// - `graph`: the joint graph with the record of its partition, as a graph file.
///
/// Draws, and operators about which nothing is known, never run again. Throws GraphError for a
/// text that is not such a graph, BudgetError if no plan fits, and OptionError.
std::string plan_exported(std::string_view exported, PartitionChoice choice,
                          ExportedKernels kernels);

}  // namespace antegrad
