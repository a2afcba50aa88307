#include "graph/analysis.h"

namespace antegrad {
namespace {

/// `key_of(id)` is the key under which the last use of a value is recorded.
template <class Key, class KeyOf>
IdMap<Key, int32_t> last_positions(const Graph& graph, Uses uses, bool making_counts,
                                   KeyOf key_of) {
  IdMap<Key, int32_t> last(graph.values.size(), -1);
  const auto note = [&](ValueId id, size_t position) {
    const Key key = id == kNoValue ? Key() : key_of(id);
    if (key.valid()) last[key] = static_cast<int32_t>(position);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId input : graph.nodes[i].inputs) note(input, i);
    if (!making_counts) continue;
    for (const ValueId output : graph.nodes[i].outputs) note(output, i);
  }
  if (uses == Uses::by_nodes) return last;
  for (const Output& output : graph.outputs) note(output.value, graph.nodes.size());
  return last;
}

}  // namespace

bool has_backward(const Graph& graph) {
  return std::ranges::any_of(
      graph.outputs, [](const Output& output) { return output.kind == OutputKind::gradient; });
}

bool has_primals(const Graph& graph) {
  return std::ranges::any_of(graph.inputs,
                             [](const Input& input) { return input.kind == InputKind::primal; });
}

bool is_joint(const Graph& graph) { return has_primals(graph) && has_backward(graph); }

Rows Rows::transposed(int32_t columns) const {
  Rows result;
  result.begin_.assign(columns + 1, 0);
  for (const int32_t item : items_) ++result.begin_[item + 1];
  for (size_t i = 1; i < result.begin_.size(); ++i) result.begin_[i] += result.begin_[i - 1];
  result.items_.resize(items_.size());
  std::vector<int32_t> next(result.begin_.begin(), result.begin_.end() - 1);
  for (int32_t row = 0; row < rows(); ++row) {
    for (const int32_t item : (*this)[row]) result.items_[next[item]++] = row;
  }
  return result;
}

IdMap<ValueId, int32_t> producers(const Graph& graph) {
  IdMap<ValueId, int32_t> producer(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs) {
      if (output != kNoValue) producer[output] = static_cast<int32_t>(i);
    }
  }
  return producer;
}

IdMap<ValueId, int32_t> input_positions(const Graph& graph) {
  IdMap<ValueId, int32_t> position(graph.values.size(), -1);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    position[graph.inputs[i].value] = static_cast<int32_t>(i);
  }
  return position;
}

IdMap<ValueId, bool> output_values(const Graph& graph) {
  return output_values(graph, [](OutputKind) { return true; });
}

IdMap<ValueId, int32_t> last_uses(const Graph& graph, Uses uses) {
  return last_positions<ValueId>(graph, uses, /*making_counts=*/false,
                                 [](ValueId id) { return id; });
}

void mark_storage(const Graph& graph, ValueId id, IdMap<StorageId, bool>& marks) {
  if (id == kNoValue) return;
  const StorageId storage = graph.value(id).storage;
  if (storage.valid()) marks[storage] = true;
}

IdMap<StorageId, int32_t> last_storage_uses(const Graph& graph, Uses uses) {
  return last_positions<StorageId>(graph, uses, /*making_counts=*/true,
                                   [&](ValueId id) { return graph.value(id).storage; });
}

std::vector<bool> needed_nodes(const Graph& graph, IdMap<ValueId, bool>& needed) {
  return needed_nodes(graph, needed,
                      [&](int32_t i) { return any_marked(graph.nodes[i].outputs, needed); });
}

}  // namespace antegrad
