#include "passes/replace_values.h"

#include <numeric>

#include "graph/analysis.h"

namespace antegrad {

ValueReplacer::ValueReplacer(Graph& graph)
    : graph_(graph),
      value_(graph.values.size()),
      storage_(graph.values.size()),
      is_output_(output_values(graph)),
      held_(graph.values.size(), false) {
  std::iota(value_.begin(), value_.end(), ValueId(0));
  std::iota(storage_.begin(), storage_.end(), StorageId(0));
  for (const Output& output : graph.outputs) mark_storage(graph, output.value, held_);
}

StorageId ValueReplacer::storage(ValueId value) const {
  const StorageId own = graph_.value(value).storage;
  return own.valid() ? storage_[own] : own;
}

bool ValueReplacer::held_by_output(StorageId storage) const {
  return storage.valid() && held_[storage];
}

void ValueReplacer::replace(ValueId value, ValueId with) {
  changed_ = true;
  value_[value] = with;
  if (is_output_[value]) is_output_[with] = true;
  const StorageId old_storage = graph_.value(value).storage;
  const StorageId new_storage = storage(with);
  if (!old_storage.valid() || !new_storage.valid()) return;
  if (held_[old_storage]) held_[new_storage] = true;
  if (old_storage == StorageId(value)) storage_[old_storage] = new_storage;
}

void ValueReplacer::update_inputs(Node& node) const {
  for (ValueId& input : node.inputs) input = value_[input];
}

void ValueReplacer::finish(const std::vector<bool>& dead) {
  if (!changed_) return;
  for (Output& output : graph_.outputs) {
    if (output.value != kNoValue) output.value = value_[output.value];
  }
  for (Value& value : graph_.values) {
    if (!value.storage.valid() || storage_[value.storage] == value.storage) continue;
    const StorageId replacement = storage_[value.storage];
    if (value.alias_class == value.storage)
      value.alias_class = graph_.value(ValueId(replacement)).alias_class;
    value.storage = replacement;
  }
  erase_nodes(graph_, dead);
}

}  // namespace antegrad
