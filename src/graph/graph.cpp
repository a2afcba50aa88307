#include "graph/graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <antegrad/error.h>

namespace antegrad {

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
    // A symbol never stands for 0: a program of size 0 is captured on its own.
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
  IntExpr elements = 1;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] == IntExpr(0)) return 0;
    elements = elements + (meta.sizes[i] - 1) * meta.strides[i];
  }
  return elements * byte_size(meta.dtype);
}

ValueId Graph::add_tensor(TensorMeta meta) {
  const auto id = static_cast<ValueId>(values.size());
  Value value;
  value.meta = std::move(meta);
  value.storage = id;
  value.alias_class = id;
  values.push_back(std::move(value));
  return id;
}

ValueId Graph::add_token() {
  const auto id = static_cast<ValueId>(values.size());
  Value value;
  value.kind = ValueKind::token;
  value.storage = id;
  value.alias_class = id;
  values.push_back(std::move(value));
  return id;
}

DefUse::DefUse(const Graph& graph)
    : producer(graph.values.size(), -1),
      input_position(graph.values.size(), -1),
      is_output(graph.values.size(), false),
      begin_(graph.values.size() + 1, 0),
      last_use_(graph.values.size(), -1) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    input_position[static_cast<size_t>(graph.inputs[i].value)] = static_cast<int32_t>(i);
  }
  for (const Output& output : graph.outputs) {
    if (output.value != kNoValue) is_output[static_cast<size_t>(output.value)] = true;
  }
  // First count the users of each value, then place them behind each other.
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    for (const ValueId output : graph.nodes[i].outputs) {
      if (output != kNoValue) producer[static_cast<size_t>(output)] = position;
    }
    for (const ValueId input : graph.nodes[i].inputs) {
      const auto value = static_cast<size_t>(input);
      if (last_use_[value] == position) continue;  // the same value twice in one node
      last_use_[value] = position;
      ++begin_[value + 1];
    }
  }
  for (size_t v = 0; v + 1 < begin_.size(); ++v) begin_[v + 1] += begin_[v];
  users_.resize(static_cast<size_t>(begin_.back()));
  std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    for (const ValueId input : graph.nodes[i].inputs) {
      const auto value = static_cast<size_t>(input);
      if (next[value] > begin_[value] && users_[static_cast<size_t>(next[value] - 1)] == position) {
        continue;
      }
      users_[static_cast<size_t>(next[value]++)] = position;
    }
  }
}

std::vector<int32_t> DefUse::users(ValueId value) const {
  const auto v = static_cast<size_t>(value);
  return {users_.begin() + begin_[v], users_.begin() + begin_[v + 1]};
}

int32_t DefUse::use_count(ValueId value) const {
  const auto v = static_cast<size_t>(value);
  return begin_[v + 1] - begin_[v];
}

int32_t next_node_id(const Graph& graph) {
  int32_t next = 0;
  for (const Node& node : graph.nodes) next = std::max(next, node.id + 1);
  return next;
}

void number_nodes(Graph& graph) {
  std::unordered_set<int32_t> ids;
  const bool unique = std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.id >= 0 && ids.insert(node.id).second;
  });
  if (unique) return;
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].id = static_cast<int32_t>(i);
}

}  // namespace antegrad
