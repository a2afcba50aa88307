#pragma once

/// \file
/// Hooks on saved tensors, in the graphs: what the forward saves is packed at its end, and unpacked in the backward
/// before it is read (rows H1, H8; docs/saved-tensor-hooks.md).
///
/// Packing stands right after the last use of the tensor in the forward, so that the tensor itself may die there, and
/// unpacking right before its first use in the backward.

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// A saved tensor and the hooks as they were captured for it.
struct HookedTensor {
  ValueId value = kNoValue;
  Graph pack;    ///< one input; its outputs are saved instead, each a tensor
  Graph unpack;  ///< inputs: those; one output, of the sizes, dtype and device of the tensor
  /// What the forward saves instead; set by pack_saved(). The tensor itself may be among them.
  std::vector<ValueId> packed = {};
};

struct Hooked {
  std::vector<HookedTensor> tensors;
  int32_t next_node = 0;  ///< ids from here on are no node's of the joint graph
  /// Objects that only the runtime can hold: those of all hooks, numbered from 0 in their graphs. Each graph that hooks
  /// are put into holds them behind its own.
  std::vector<std::string> object_names = {};
};

/// Whether hooks can stand for a saved value: a tensor that fills its storage from its start.
bool can_be_hooked(const Graph& forward, ValueId saved);

/// Lets the forward save what the hooks pack. Runs before anything is written in place.
void pack_saved(Graph& forward, Hooked& hooked);

/// Lets a backward of that forward read what the hooks unpack. Returns, by value of this graph, the values of the
/// forward that new inputs stand for.
ForwardValues unpack_saved(Graph& backward, const Hooked& hooked);

/// Both, and Partition::plan and forward_values.
void apply_hooks(Partition& partition, Hooked& hooked);

/// Saved values of the forward as values of a backward with these new inputs; those that it does not read are left out.
std::vector<ValueId> in_backward(const Graph& backward, std::vector<ValueId> values,
                                 const ForwardValues& forward_values);

}  // namespace antegrad
