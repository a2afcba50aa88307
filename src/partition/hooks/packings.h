#pragma once

/// \file
/// Ways to pack saved values between forward and backward, as plans for a memory budget see them
/// (docs/budget.md): packed right after the last use in the forward, unpacked right before the
/// first use in the backward.

#include <cstdint>
#include <string>
#include <vector>

#include "cost/machine.h"
#include "graph/graph.h"
#include "memory/byte_rules.h"
#include "partition/hooks/hooks.h"

namespace antegrad {

struct PackCost {
  int64_t bytes = 0;   ///< rounded, of the packed form
  double seconds = 0;  ///< packing and unpacking once
  /// The most bytes alive while packing and while unpacking, without those of the tensor and of
  /// the packed form. Negative if what is read is freed before the end.
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
  /// True: everything saved is packed, by the only way, because hooks of a scope require it.
  /// False: a plan may choose.
  bool always = false;
  std::vector<Entry> entries;  ///< by value, then by way; other values stay as they are
};

/// For a tensor with those hooks, with times on that machine.
PackCost pack_cost(const HookedTensor& hooked, const Machine& machine, const ByteRules& rules);

}  // namespace antegrad
