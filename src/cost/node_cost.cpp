#include "cost/node_cost.h"

#include <algorithm>
#include <limits>

#include "cost/op_flops.h"
#include "cost/saturating.h"

namespace antegrad {

int64_t moved_bytes(const Value& value, const std::vector<int64_t>& symbols) {
  if (value.kind != ValueKind::tensor) return 0;
  int64_t elements = 1;
  for (size_t i = 0; i < value.meta.sizes.size(); ++i) {
    const int64_t size = value.meta.sizes[i].evaluate(symbols);
    // A stride of 0 covers one element, or none.
    const bool repeats = i < value.meta.strides.size() && value.meta.strides[i] == IntExpr(0);
    const int64_t distinct = repeats ? std::min<int64_t>(size, 1) : size;
    if (__builtin_mul_overflow(elements, distinct, &elements)) {
      elements = std::numeric_limits<int64_t>::max() / 16;
    }
  }
  return elements * byte_size(value.meta.dtype);
}

NodeCost node_cost(const Graph& graph, const Node& node, const std::vector<int64_t>& symbols) {
  const OpTraits& traits = node.op.traits();
  if (traits.view || traits.uninitialized()) return {};
  NodeCost cost;
  cost.flops = op_flops(graph, node, symbols);
  int64_t written = 0;
  for (const ValueId id : node.outputs) {
    if (id != kNoValue) written = plus(written, moved_bytes(graph.value(id), symbols));
  }
  cost.bytes = written;
  if (!traits.reads_data) return cost;
  int64_t most = written;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto here = node.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(node.inputs.begin(), here, *here) != here) continue;
    const int64_t all = moved_bytes(graph.value(*here), symbols);
    most = std::max(most, all);
    cost.bytes = plus(cost.bytes, traits.gathers && i == 0 ? std::min(all, written) : all);
  }
  if (traits.leaves_device) cost.host_bytes = most;
  return cost;
}

}  // namespace antegrad
