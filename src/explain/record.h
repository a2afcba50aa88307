#pragma once

/// \file
/// How a graph was partitioned, with which options and what came of it: one JSON object that stands at the end of a
/// graph file (docs/graph-format.md), so that `antegrad replay` can derive it again.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "partition/choice.h"
#include "partition/partition.h"

namespace antegrad {

/// The version of the library, "0.1.0".
std::string_view library_version();

struct PartitionRecord {
  std::string version;  ///< of the library that made it
  PartitionChoice choice;
  std::vector<ValueId> saved;  ///< ascending
  /// By value, how often its operation runs beyond the first time; the first output stands for all of a node. Views
  /// are not in it: they follow from what is saved.
  std::map<ValueId, int64_t> recomputed;
  int64_t peak = 0;  ///< predicted, bytes, as if nothing were packed
  /// Fields of the caller's, such as guards and shapes. Replaying does not look at them.
  nlohmann::json more = nlohmann::json::object();
  /// Of the saved values, those that are packed, and in which way: an index into Packings::ways.
  std::map<ValueId, int32_t> packed = {};
};

/// The record of a partition that was made with `choice`.
PartitionRecord make_record(const Partition& partition, const PartitionChoice& choice);

/// JSON, a field on each line; ends without a newline.
std::string to_text(const PartitionRecord& record);
/// Throws GraphError on what to_text() cannot have written.
PartitionRecord parse_record(std::string_view text);

}  // namespace antegrad
