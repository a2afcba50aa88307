#pragma once

/// \file
/// Floating-point operations of a node: the multiplications and additions of matrix products,
/// convolutions, attention and recurrent layers.
///
/// There is one formula per family, in a table by base name (op_flops.cpp). A multiplication and
/// the following addition count as two. All other operators count 0, since their cost is the
/// memory that they move (cost/node_cost.h). Counts equal those of torch.utils.flop_counter for
/// operators that it knows, with these exceptions:
///  - attention on the CPU (`_scaled_dot_product_flash_attention_for_cpu`) and the kernels that
///    `nn::LSTM` and `nn::GRU` call count; there they are 0;
///  - the gradient of a grouped convolution's weight counts what each group multiplies;
///  - `_flash_attention_*` and `_efficient_attention_*` take [batch, length, heads, head size].
/// As there, neither a causal mask nor padding reduces the count.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Whether the table has a formula for the operator ("aten::mm").
bool has_flops(std::string_view base_name);

/// Operations of one run of the node. `symbols`: values of the graph's symbols, by SymbolId.
/// Counts that exceed int64_t are its largest value. For sequences of different lengths
/// (`cum_seq_q`) all keys count as long as the longest. Throws GraphError if a tensor has fewer
/// dimensions than the operator needs.
int64_t op_flops(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols = {});

}  // namespace antegrad
