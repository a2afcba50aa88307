#pragma once

/// \file
/// Statistics of a graph: nodes and bytes by operator; and what a partition of it saves, and why.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "memory/peak.h"
#include "partition/partition.h"

namespace antegrad {

struct OpCount {
  std::string op;
  int64_t forward = 0;  ///< nodes
  int64_t backward = 0;
  int64_t bytes = 0;  ///< of the storages that its nodes make, rounded
};

struct SavedTensor {
  ValueId value = kNoValue;
  std::string text;     ///< "f32[8, 64]"
  std::string made_by;  ///< its operator, or the source of a primal
  std::string why;
  int64_t bytes = 0;  ///< rounded; 0 for what exists anyway (primals, results)
};

/// What a partition saves and needs.
struct PartitionStats {
  int64_t forward_nodes = 0;
  int64_t backward_nodes = 0;
  int64_t recomputed_nodes = 0;  ///< forward nodes that run again, including views
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;
  std::string peak_op;             ///< operator that runs at the peak
  std::vector<SavedTensor> saved;  ///< the largest first
};

/// One kernel of several nodes.
struct GroupStats {
  std::string text;   ///< its nodes in the graph's order: "aten::mul, aten::relu 2x"
  int64_t nodes = 0;  ///< including views
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_vanished = 0;  ///< of intermediates that are not written
};

/// What fusion groups (fusion/groups.h) would do to a graph. Nothing runs them yet.
struct FusionStats {
  int64_t kernels = 0;    ///< all groups
  int64_t generated = 0;  ///< those of generated code
  int64_t bytes = 0;      ///< read and written by all groups
  int64_t bytes_vanished = 0;
  int64_t bytes_unfused = 0;  ///< read and written by the nodes one by one
  std::vector<GroupStats>
      largest;  ///< groups of several nodes, by bytes that vanish, then by nodes; at most 10
};

struct GraphStats {
  std::string name;
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t forward_nodes = 0;
  int64_t backward_nodes = 0;
  int64_t input_bytes = 0;
  int64_t made_bytes = 0;    ///< of all storages that nodes make
  std::vector<OpCount> ops;  ///< the most frequent first
  std::optional<PartitionStats> partition;
  std::optional<FusionStats> fusion;
};

/// Without `partition` and `fusion`, which the caller adds if it has them.
GraphStats graph_stats(const Graph& graph, const ByteRules& rules = {});
PartitionStats partition_stats(const Partition& partition, const ByteRules& rules = {});
/// `symbols`: values of the graph's symbols, by SymbolId.
FusionStats fusion_stats(const Graph& graph, const std::vector<int64_t>& symbols = {});

/// A table for people.
std::string to_text(const GraphStats& stats);
/// The same as one JSON object.
nlohmann::json to_json(const GraphStats& stats);

}  // namespace antegrad
