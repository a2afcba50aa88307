#pragma once

/// \file
/// The result of every partitioner: the forward and the backward graph of a joint graph, and what
/// the forward saves for the backward.
///
/// Both graphs keep the ValueIds and node ids of the joint graph and follow the calling convention
/// in graph/graph.h. Saved values have the same order among the forward's outputs and among the
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

/// The decision of a partitioner about a value that the backward needs from the forward.
struct Decision {
  ValueId value = kNoValue;
  bool saved = false;     ///< otherwise recomputed in the backward
  std::string_view rule;  ///< the name of the deciding rule; immortal
};

/// How the backward schedules recomputation. By default all nodes captured in the backward run
/// where they were recorded, and recomputed values stay until their last use.
struct Schedule {
  /// Views of forward values that were captured in the backward run just before their first use
  /// (dependence.h), like all recomputed nodes. Checkpoints are ignored.
  bool planned = false;
  /// By Node::id, ascending: values that are freed after this node of the backward, with their
  /// views, and recomputed once more if they are needed later.
  std::vector<std::pair<int32_t, ValueId>> forget;
};

struct Partition {
  Graph forward;
  Graph backward;
  /// Who owns what passes between these graphs and the world, and what the forward saves.
  CallPlan plan;
  ForwardValues forward_values;  ///< of the backward; hooks fill it
  /// Saved values first, in their order, then recomputed ones in theirs. Empty for partitioners
  /// without decisions.
  std::vector<Decision> decisions;
  /// Saved values to pack, each with its way (PartitionChoice::packings). The graphs do not
  /// contain the packing yet (partition/hooks.h).
  std::map<ValueId, int32_t> packed = {};
  /// The schedule of the backward. Other backwards of the same forward use it too.
  Schedule schedule;
};

/// What passes that return a partition are checked for, and which graphs they dump.
template <>
struct PassResult<Partition> {
  static std::vector<NamedGraph> graphs(Partition& partition) {
    return {{"forward", &partition.forward}, {"backward", &partition.backward}};
  }
  static void check(const Partition& partition);
};

/// The memory that one step of the two graphs takes; see memory/peak.h.
inline Timeline simulate(const Partition& partition, const ByteRules& rules = {}) {
  return simulate(partition.plan, partition.forward, partition.backward, rules);
}

}  // namespace antegrad
