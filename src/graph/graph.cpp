#include "graph/graph.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <utility>

#include <antegrad/error.h>

namespace antegrad {
namespace {

// The usual case of span_bytes(), without arithmetic of expressions. Nothing for symbols and
// overflows.
std::optional<int64_t> constant_span_bytes(const TensorMeta& meta) {
  int64_t last = 0;
  bool overflows = false, empty = false;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (!meta.sizes[i].is_constant() || !meta.strides[i].is_constant()) return std::nullopt;
    const int64_t size = meta.sizes[i].constant();
    int64_t distance = 0;
    overflows |= __builtin_mul_overflow(size - 1, meta.strides[i].constant(), &distance) ||
                 __builtin_add_overflow(last, distance, &last);
    empty |= size == 0;
  }
  if (empty) return 0;
  int64_t bytes = 0;
  overflows |= __builtin_add_overflow(last, 1, &last) ||
               __builtin_mul_overflow(last, byte_size(meta.dtype), &bytes);
  return overflows ? std::nullopt : std::optional(bytes);
}

}  // namespace

int64_t generator_state_bytes(std::string_view generator) {
  const bool on_cpu = generator == "cpu" || generator.ends_with(":cpu");
  return on_cpu ? kGeneratorStateBytes : 0;
}

bool Output::differentiable() const {
  return of_forward(kind) && requires_grad && !leaf && !alias.shares_history();
}

Shape contiguous_strides(const Shape& sizes) {
  Shape strides(sizes.size());
  IntExpr step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    // A symbol never stands for 0: a size of 0 gets a program of its own.
    if (sizes[i] != IntExpr(0)) step = step * sizes[i];
  }
  return strides;
}

bool is_contiguous(const TensorMeta& meta) {
  for (const IntExpr& size : meta.sizes) {
    if (size == IntExpr(0)) return true;
  }
  // As in libtorch, the stride of a dimension of size 1 does not matter.
  IntExpr step = 1;
  for (size_t i = meta.sizes.size(); i-- > 0;) {
    if (meta.sizes[i] == IntExpr(1)) continue;
    if (meta.strides[i] != step) return false;
    step = step * meta.sizes[i];
  }
  return true;
}

IntExpr numel(const TensorMeta& meta) {
  IntExpr count = 1;
  for (const IntExpr& size : meta.sizes) count = count * size;
  return count;
}

IntExpr span_bytes(const TensorMeta& meta) {
  if (const auto bytes = constant_span_bytes(meta)) return *bytes;
  IntExpr elements = 1;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] == IntExpr(0)) return 0;
    elements = elements + (meta.sizes[i] - 1) * meta.strides[i];
  }
  return elements * byte_size(meta.dtype);
}

ValueId Graph::add(Value value) {
  const ValueId id(values.size());
  value.storage = value.alias_class = StorageId(id);
  return values.add(std::move(value));
}

bool Node::draws_nothing() const {
  const auto is = [&](int32_t position, const auto& value) {
    return position >= 0 && std::cmp_less(position, args.size()) && args[position] == Attr(value);
  };
  const DrawsNothing& when = op.info().row->draws_nothing;
  return is(when.if_zero, 0.0) || is(when.if_false, false);
}

bool Node::replayable() const {
  const OpTraits& traits = op.traits();
  return tokens > 0 && traits.random && !traits.has_side_effects();
}

bool Node::repeatable() const {
  if (tokens > 0) return replayable();
  const OpTraits& traits = op.traits();
  return traits.repeatable() || traits.uninitialized() ||
         (draws_nothing() && !traits.has_side_effects());
}

void erase_nodes(Graph& graph, const std::vector<bool>& dead) {
  const Node* first = graph.nodes.data();
  std::erase_if(graph.nodes, [&](const Node& node) { return bool(dead[&node - first]); });
}

int32_t next_node_id(const Graph& graph) {
  int32_t next = 0;
  for (const Node& node : graph.nodes) next = std::max(next, node.id + 1);
  return next;
}

void number_nodes(Graph& graph) {
  std::unordered_set<int32_t> ids;
  const bool unique = std::ranges::all_of(
      graph.nodes, [&](const Node& node) { return node.id >= 0 && ids.insert(node.id).second; });
  if (unique) return;
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].id = static_cast<int32_t>(i);
}

}  // namespace antegrad
