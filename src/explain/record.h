#pragma once

/// \file
/// Records how a graph was partitioned, with which options and which result: one JSON object at
/// the end of a graph file (docs/graph-format.md), from which `antegrad replay` can repeat it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "partition/partitioner.h"

namespace antegrad {

/// The version of the library, "0.1.0".
std::string_view library_version();

struct PartitionRecord {
  std::string version;  ///< of the library that made it
  PartitionChoice choice;
  std::vector<ValueId> saved;  ///< ascending
  /// By value, how often its operation runs after the first time. The first output represents all
  /// outputs of a node. Views are omitted: they follow from the saved values.
  std::map<ValueId, int64_t> recomputed;
  int64_t peak = 0;  ///< predicted, in bytes, as if nothing were packed
  /// Additional fields of the caller, such as guards and shapes. Replaying ignores them.
  nlohmann::json more = nlohmann::json::object();
  /// The packed saved values, each with its way: an index into Packings::ways.
  std::map<ValueId, int32_t> packed = {};
};

/// The record of a partition made with `choice`.
PartitionRecord make_record(const Partition& partition, const PartitionChoice& choice);

/// JSON, one field per line, without a newline at the end.
std::string to_text(const PartitionRecord& record);
/// Throws GraphError for a text that to_text() cannot have written.
PartitionRecord parse_record(std::string_view text);

}  // namespace antegrad
