#pragma once

/// \file
/// What PyTorch's Inductor writes to memory in a kernel for a CPU, although the same kernel reads
/// it.
///
/// Inductor computes a result again for each reader, inlined, until that gets expensive. Then it
/// gives the result a buffer (StorageBox.should_realize_on_reuse in torch/_inductor/ir.py). In a
/// kernel of one loop, what the kernel returns takes the buffer's place. A kernel that reduces has
/// several loops.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Clears the flags of such nodes, by Node::id. On other devices, kernels keep their buffers in
/// registers.
void drop_inductor_buffers(const Graph& joint, std::vector<bool>& fused);

}  // namespace antegrad
