#pragma once

/// \file
/// Code of nodes that copy elements at indices, in the loops of a group.

#include <vector>

#include "lower/aten_gathers.h"
#include "lower/code_builder.h"
#include "lower/group_assembly.h"
#include "lower/group_kernel.h"
#include "lower/group_layout.h"

namespace antegrad::lower {

/// A tensor that a gather reads from memory: `base`, of which it is a view or which it is.
struct GatheredTensor {
  ValueId value;
  ValueId base;
};

/// The element of `source` at the indices, in order of those of `call`. `result` is the layout of
/// the node's result. Adds what is read to `memory`, and what must hold of indices to `bounds`.
Id gathered(const Graph& graph, const GatherCall& call, GatheredTensor source,
            const std::vector<GatheredTensor>& indices, const TensorLayout& result,
            const GroupLayout& layout, CodeBuilder& code, std::vector<MemoryUse>& memory,
            std::vector<GroupBound>& bounds);

}  // namespace antegrad::lower
