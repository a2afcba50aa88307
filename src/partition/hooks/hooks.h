#pragma once

/// \file
/// Inserts hooks on saved tensors into the graphs: saved tensors are packed in the forward and
/// unpacked in the backward (docs/saved-tensor-hooks.md).
///
/// Packing is placed right after the last use of the tensor in the forward, so that the tensor may
/// be freed there. Unpacking is placed right before its first use in the backward.

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace antegrad {

/// A saved tensor and the hooks captured for it.
struct HookedTensor {
  ValueId value = kNoValue;
  Graph pack;  ///< one input; its outputs are saved instead, each a tensor
  /// inputs: those outputs; one output, with the sizes, dtype and device of the tensor
  Graph unpack;
  /// What the forward saves instead; set by pack_saved(). May include the tensor itself.
  std::vector<ValueId> packed = {};
};

struct Hooked {
  std::vector<HookedTensor> tensors;
  int32_t next_node = 0;  ///< first id that no node of the joint graph has
  /// Objects that only the runtime can hold: those of all hooks, numbered from 0 in their graphs.
  /// Each graph with inserted hooks has them after its own objects.
  std::vector<std::string> object_names = {};
};

/// Whether hooks can pack a saved value: a tensor that fills its storage from its start.
bool can_be_hooked(const Graph& forward, ValueId saved);

/// Makes the forward save the packed values. Must run before reinplacing.
void pack_saved(Graph& forward, Hooked& hooked);

/// Makes a backward of that forward read the unpacked values. Returns, by value of this graph, the
/// forward values of new inputs.
ForwardValues unpack_saved(Graph& backward, const Hooked& hooked);

/// Both, and Partition::plan and forward_values.
void apply_hooks(Partition& partition, Hooked& hooked);

/// Saved values of the forward as values of a backward with these new inputs, without those that
/// it does not read.
std::vector<ValueId> in_backward(const Graph& backward, std::vector<ValueId> values,
                                 const ForwardValues& forward_values);

}  // namespace antegrad
