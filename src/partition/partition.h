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

#include "graph/graph.h"
#include "memory/peak.h"

namespace antegrad {

/// Why a value is saved, for reports.
enum class SavedWhy : uint8_t {
  primal,        ///< an input of the call: free, the caller holds it
  result,        ///< a result: free while the caller holds it
  intermediate,  ///< the backward reads it
  view_base,     ///< the backward reads only views of it, which it makes again
  size,          ///< an integer or float
  /// A token, saved as the state of its generator: a random node runs again from it.
  generator_state,
};

/// "primal", "result", "intermediate", "view base", "size", "generator state".
std::string_view name(SavedWhy why);

struct Saved {
  ValueId value = kNoValue;
  IntExpr bytes = 0;  ///< of its storage or state, not rounded; 0 for sizes
  SavedWhy why = SavedWhy::intermediate;
};

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
  std::vector<Saved> saved;
  /// Saved values first, in their order, then computed ones in theirs. Empty from partitioners that
  /// have nothing to decide.
  std::vector<Decision> decisions;
  /// Saved values that are to be packed, and in which way (PartitionChoice::packings); what stands in the graphs is not
  /// packed yet (partition/hooks.h).
  std::map<ValueId, int32_t> packed = {};
  /// With which the backward was made; other backwards of the same forward take it too.
  Schedule schedule;
};

/// The memory that one step of the two graphs takes; see memory/peak.h.
inline Timeline simulate(const Partition& partition, const ByteRules& rules = {}) {
  return simulate(partition.forward, partition.backward, rules);
}

}  // namespace antegrad
