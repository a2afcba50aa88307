#pragma once

/// \file
/// Where each node of a joint graph runs when given values are saved, and what the forward saves in fact: the
/// decisions of a split, before anything is built.

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

struct Placement {
  /// A thread of tokens: the joint output that ends it, and its last token of the forward.
  struct Thread {
    Output end;
    ValueId boundary;
    bool crosses() const { return end.value != boundary; }
  };

  std::vector<bool> forward_side;     ///< by node: where the backward needs it, it runs again
  std::vector<bool> runs_forward;     ///< by node
  std::vector<bool> runs_backward;    ///< by node
  std::vector<ValueId> saved;         ///< what the backward needs of what may be saved
  std::vector<Thread> threads;        ///< of generators and effects
  std::vector<int32_t> producer;      ///< by value: position of its node, -1 for inputs
  std::vector<int32_t> generator_of;  ///< by value (generators_of_tokens())
};

/// `joint`, `saved` and errors: as for split_at(). `planned`: Schedule::planned.
Placement place(const Graph& joint, std::vector<bool> saved, bool planned);

}  // namespace antegrad
