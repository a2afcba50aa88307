#pragma once

/// \file
/// What every partitioner returns: the forward and the backward graph of a joint graph, and what
/// the first saves for the second.
///
/// Both graphs keep the ValueIds and node ids of the joint graph and follow the calling convention
/// in graph/graph.h. Saved values stand in the same order as the forward's outputs and the
/// backward's inputs of kind `saved`. Each owns its storage. An inference graph has an empty
/// backward.

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/call_plan.h"
#include "graph/graph.h"
#include "memory/peak.h"
#include "passes/pass_manager.h"

namespace antegrad {

/// What a partitioner decided about a value that the backward needs from the forward.
struct Decision {
  ValueId value = kNoValue;
  bool saved = false;     ///< or else computed again in the backward
  std::string_view rule;  ///< the name of the rule that decided it; lives for ever
};

/// How the backward runs what it computes again. By default all that was captured in the backward runs where it
/// was recorded, and what ran again stays until its last use.
struct Schedule {
  /// Views of forward values that were captured in the backward run just before their first use (dependence.h), like
  /// all that runs again; and checkpoints say nothing.
  bool planned = false;
  /// By Node::id, ascending: values that are forgotten after this node of the backward, with their views, and
  /// computed once more where they are needed later.
  std::vector<std::pair<int32_t, ValueId>> forget;
};

struct Partition {
  Graph forward;
  Graph backward;
  /// Who owns what passes between these graphs and the world, and what the first saves for the second.
  CallPlan plan;
  ForwardValues forward_values;  ///< of the backward; hooks fill it
  /// Saved values first, in their order, then computed ones in theirs. Empty from partitioners that
  /// have nothing to decide.
  std::vector<Decision> decisions;
  /// Saved values that are to be packed, and in which way (PartitionChoice::packings); what stands in the graphs is not
  /// packed yet (partition/hooks.h).
  std::map<ValueId, int32_t> packed = {};
  /// With which the backward was made; other backwards of the same forward take it too.
  Schedule schedule;
};

/// What passes that return a partition are checked for, and which graphs they dump.
template <>
struct PassResult<Partition> {
  static std::vector<NamedGraph> graphs(const Partition& partition) {
    return {{"forward", &partition.forward}, {"backward", &partition.backward}};
  }
  static void check(const Partition& partition);
};

/// The memory that one step of the two graphs takes; see memory/peak.h.
inline Timeline simulate(const Partition& partition, const ByteRules& rules = {}) {
  return simulate(partition.plan, partition.forward, partition.backward, rules);
}

}  // namespace antegrad
