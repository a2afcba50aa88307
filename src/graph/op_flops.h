#pragma once

/// \file
/// Floating-point operations of a node: what matrix products, convolutions, attention and recurrent
/// layers multiply and add.
///
/// One formula a family, in a table by base name (op_flops.cpp). A multiplication and the addition
/// behind it count as two. Everything else counts 0: what such operators cost is the memory that they
/// move (fusion/cost.h). Counts are those of torch.utils.flop_counter where that knows the
/// operator, except that
///  - attention on the CPU (`_scaled_dot_product_flash_attention_for_cpu`) and the kernels that
///    `nn::LSTM` and `nn::GRU` call count; there they are 0;
///  - the gradient of a grouped convolution's weight counts what each group multiplies;
///  - `_flash_attention_*` and `_efficient_attention_*` take [batch, length, heads, head size].
/// As there, a causal mask saves nothing, and neither does padding.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Whether the table has a formula for the operator ("aten::mm").
bool has_flops(std::string_view base_name);

/// Operations of one run of the node. `symbols`: values of the graph's symbols, by SymbolId. Counts that
/// no int64_t holds are its largest value. Of sequences of different lengths (`cum_seq_q`) all keys
/// count as long as the longest. Throws GraphError when a tensor has fewer dimensions than the operator
/// takes.
int64_t op_flops(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols = {});

}  // namespace antegrad
