#pragma once

/// \file
/// Counts what a graph holds: nodes by operator and bytes; and what a partition of it saves, and
/// why.

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
  int64_t bytes = 0;  ///< rounded; 0 for what is held anyway (primals, results)
};

/// What a partition keeps and needs.
struct PartitionStats {
  int64_t forward_nodes = 0;
  int64_t backward_nodes = 0;
  int64_t recomputed_nodes = 0;  ///< forward nodes that run again, views included
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;
  std::string peak_op;             ///< operator that runs at the peak
  std::vector<SavedTensor> saved;  ///< the largest first
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
};

/// Without `partition`, which the caller adds when it has one.
GraphStats graph_stats(const Graph& graph, const ByteRules& rules = {});
PartitionStats partition_stats(const Partition& partition, const ByteRules& rules = {});

/// A table for people.
std::string to_text(const GraphStats& stats);
/// The same as one JSON object.
nlohmann::json to_json(const GraphStats& stats);

}  // namespace antegrad
