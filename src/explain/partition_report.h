#pragma once

/// \file
/// The decisions of a partitioner, value by value, and their effect on memory.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "explain/stats.h"

namespace antegrad {

struct DecidedValue {
  ValueId value = kNoValue;
  bool saved = false;   ///< otherwise recomputed
  std::string rule;     ///< Decision::rule
  std::string text;     ///< "f32[8, 64]"
  std::string made_by;  ///< its operator, or the source of a primal
  /// Rounded. 0 for views, and for saved values that exist anyway (primals, results).
  int64_t bytes = 0;
};

struct RuleCount {
  std::string rule;
  int64_t saved = 0;  ///< values
  int64_t computed = 0;
  int64_t saved_bytes = 0;
};

struct PartitionReport : PartitionStats {
  std::string name;
  std::vector<DecidedValue> values;  ///< as Partition::decisions
  std::vector<RuleCount> rules;      ///< in the order in which they occur there
};

/// `name`: the title, with the graph and how it was partitioned.
PartitionReport partition_report(const Partition& partition, std::string name,
                                 const ByteRules& rules = {});

/// Tables for people. `other` is a partition of the same graph whose sums are shown for
/// comparison.
std::string to_text(const PartitionReport& report, const PartitionReport& other);
/// The same as one JSON object. The sums of `other` are under its name.
nlohmann::json to_json(const PartitionReport& report, const PartitionReport& other);

}  // namespace antegrad
