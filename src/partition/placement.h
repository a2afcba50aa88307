#pragma once

/// \file
/// Assigns each node of a joint graph to the forward or the backward program, for given saved
/// values, and determines what the forward really saves. The first half of a split; split_at()
/// then builds the graphs.

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

struct Placement {
  /// A chain of tokens: the joint output that ends it, and its last token of the forward.
  struct Thread {
    Output end;
    ValueId boundary;
    bool crosses() const { return end.value != boundary; }
  };

  std::vector<bool> forward_side;        ///< by node: recomputed if the backward needs it
  std::vector<bool> runs_forward;        ///< by node
  std::vector<bool> runs_backward;       ///< by node
  std::vector<ValueId> saved;            ///< of the values to save, those that the backward needs
  std::vector<Thread> threads;           ///< of generators and effects
  IdMap<ValueId, int32_t> producer;      ///< position of its producer, -1 for inputs
  IdMap<ValueId, int32_t> generator_of;  ///< generators_of_tokens()
};

/// `joint`, `saved` and errors: as for split_at(). `planned`: Schedule::planned.
Placement place(const Graph& joint, IdMap<ValueId, bool> saved, bool planned);

}  // namespace antegrad
