#include "passes/replace_values.h"

#include <numeric>
#include <utility>

#include "graph/ids.h"

namespace antegrad {
namespace {}  // namespace

ValueReplacer::ValueReplacer(Graph& graph)
    : graph_(graph),
      value_(graph.values.size()),
      storage_(graph.values.size()),
      is_output_(graph.values.size(), false),
      held_(graph.values.size(), false) {
  std::iota(value_.begin(), value_.end(), 0);
  std::iota(storage_.begin(), storage_.end(), 0);
  for (const Output& output : graph.outputs) {
    if (output.value == kNoValue) continue;
    is_output_[at(output.value)] = true;
    const StorageId storage = graph.value(output.value).storage;
    if (storage >= 0) held_[at(storage)] = true;
  }
}

StorageId ValueReplacer::storage(ValueId value) const {
  const StorageId own = graph_.value(value).storage;
  return own < 0 ? own : storage_[at(own)];
}

bool ValueReplacer::held_by_output(StorageId storage) const {
  return storage >= 0 && held_[at(storage)];
}

void ValueReplacer::replace(ValueId value, ValueId with) {
  changed_ = true;
  value_[at(value)] = with;
  if (is_output_[at(value)]) is_output_[at(with)] = true;
  const StorageId old_storage = graph_.value(value).storage;
  const StorageId new_storage = storage(with);
  if (old_storage < 0 || new_storage < 0) return;
  if (held_[at(old_storage)]) held_[at(new_storage)] = true;
  if (old_storage == value) storage_[at(old_storage)] = new_storage;
}

void ValueReplacer::update_inputs(Node& node) const {
  for (ValueId& input : node.inputs) input = value_[at(input)];
}

void ValueReplacer::finish(const std::vector<bool>& dead) {
  if (!changed_) return;
  for (Output& output : graph_.outputs) {
    if (output.value != kNoValue) output.value = value_[at(output.value)];
  }
  for (Value& value : graph_.values) {
    if (value.storage < 0 || storage_[at(value.storage)] == value.storage) continue;
    const StorageId replacement = storage_[at(value.storage)];
    if (value.alias_class == value.storage)
      value.alias_class = graph_.value(replacement).alias_class;
    value.storage = replacement;
  }
  size_t kept = 0;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (dead[i]) continue;
    if (kept != i) graph_.nodes[kept] = std::move(graph_.nodes[i]);
    ++kept;
  }
  graph_.nodes.resize(kept);
}

}  // namespace antegrad
