#include "partition/default_partition.h"

#include <utility>

#include "partition/split.h"
#include "partition/tags.h"

namespace antegrad {
namespace {

/// Whether the node copies a tensor to memory with holes. Capture has such copies where the program
/// writes a part of a larger tensor in place.
bool leaves_holes(const Graph& joint, const Node& node) {
  if (node.op.name() != "antegrad::restride.default") return false;
  const TensorMeta& copy = joint.value(node.outputs[0]).meta;
  return span_bytes(copy) != numel(copy) * IntExpr(byte_size(copy.dtype));
}

}  // namespace

Partition default_partition(Graph joint) {
  // If everything except views may be saved, split_at() stops at the first value behind the views
  // that the backward reads. What was copied to memory with holes takes less without them.
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  for (const Node& node : joint.nodes) {
    if (!node.op.traits().view && !leaves_holes(joint, node)) continue;
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) saved[output] = false;
    }
  }
  const Tags tags(joint);
  for (const ValueId id : saved.ids()) {
    if (tags.is_interior(id)) saved[id] = false;
  }
  return split_at(std::move(joint), saved);
}

}  // namespace antegrad
