#pragma once

/// \file
/// Shared by the tests of partitions: values to save, and partitions as text.

#include <string>
#include <vector>

#include "graph/verify.h"
#include "graphs.h"
#include "partition/partition.h"

namespace antegrad::testing {

/// The argument of split_at() that saves only these values.
inline IdMap<ValueId, bool> saving(const Graph& graph, const std::vector<ValueId>& ids) {
  IdMap<ValueId, bool> saved(graph.values.size(), false);
  for (const ValueId id : ids) saved[id] = true;
  return saved;
}

/// "%7 view base, %0 primal"
inline std::string saved_text(const Partition& partition) {
  std::string text;
  for (const SavedSlot& saved : partition.plan.saved) {
    if (!text.empty()) text += ", ";
    text += "%" + to_string(saved.value) + " " + std::string(name(saved));
  }
  return text;
}

inline std::string node_list(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += node_text(graph, node) + "\n";
  return text;
}

inline void verify_both(const Partition& partition) {
  EXPECT_NO_THROW(verify(partition.forward));
  EXPECT_NO_THROW(verify(partition.backward));
  EXPECT_NO_THROW(
      verify(partition.plan, partition.forward, partition.backward, partition.forward_values));
  EXPECT_EQ(parse_call_plan(to_text(partition.plan)), partition.plan) << to_text(partition.plan);
}

}  // namespace antegrad::testing
