#include "partition/default_partition.h"

#include <utility>

#include "partition/split.h"
#include "partition/tags.h"

namespace antegrad {

Partition default_partition(Graph joint) {
  // If everything except views may be saved, split_at() stops at the first value behind the views
  // that the backward reads.
  IdMap<ValueId, bool> saved(joint.values.size(), true);
  for (const Node& node : joint.nodes) {
    if (!node.op.traits().view) continue;
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
