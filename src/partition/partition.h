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

#include "graph/graph.h"
#include "memory/peak.h"

namespace antegrad {

/// Why a value is saved, for reports.
enum class SavedWhy : uint8_t {
  primal,        ///< an input of the call: free, the caller holds it
  result,        ///< a result: free while the caller holds it
  intermediate,  ///< the backward reads it
  view_base,     ///< the backward reads only views of it, which it recomputes
  size,          ///< an integer or float
  /// A token, saved as the state of its generator. A random node runs again from it.
  generator_state,
};

/// "primal", "result", "intermediate", "view base", "size", "generator state".
std::string_view name(SavedWhy why);

struct Saved {
  ValueId value = kNoValue;
  IntExpr bytes = 0;  ///< of its storage or state, not rounded; 0 for sizes
  SavedWhy why = SavedWhy::intermediate;
};

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
  std::vector<Saved> saved;
  /// Saved values first, in their order, then recomputed ones in theirs. Empty for partitioners
  /// without decisions.
  std::vector<Decision> decisions;
  /// Saved values to pack, each with its way (PartitionChoice::packings). The graphs do not
  /// contain the packing yet (partition/hooks.h).
  std::map<ValueId, int32_t> packed = {};
  /// The schedule of the backward. Other backwards of the same forward use it too.
  Schedule schedule;
};

/// The memory of one step of the two graphs; see memory/peak.h.
inline Timeline simulate(const Partition& partition, const ByteRules& rules = {}) {
  return simulate(partition.forward, partition.backward, rules);
}

}  // namespace antegrad
