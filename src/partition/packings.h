#pragma once

/// \file
/// Ways to keep saved values in other bytes between forward and backward, as plans for a memory budget weigh them
/// (docs/budget.md): packed right after the last use in the forward, unpacked right before the first in the backward.

#include <cstdint>
#include <string>
#include <vector>

#include "fusion/cost.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/hooks.h"

namespace antegrad {

struct PackCost {
  int64_t bytes = 0;   ///< rounded, of what is kept
  double seconds = 0;  ///< packing and unpacking once
  /// The most bytes alive while packing and while unpacking, less the tensor's and those kept. Below 0 where what is read
  /// dies before the end.
  int64_t pack_scratch = 0;
  int64_t unpack_scratch = 0;
};

struct Packings {
  struct Entry {
    ValueId value = kNoValue;
    int32_t way = 0;
    PackCost cost;
  };
  std::vector<std::string> ways;  ///< names
  /// What is saved is packed, by the only way there is: hooks that a scope demands. Or else a plan may choose.
  bool always = false;
  std::vector<Entry> entries;  ///< by value, then by way; values that are not here stay as they are
};

/// Of a tensor with those hooks, by a roofline of the machine.
PackCost pack_cost(const HookedTensor& hooked, const Machine& machine, const ByteRules& rules);

}  // namespace antegrad
