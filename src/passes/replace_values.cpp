#include "passes/replace_values.h"

#include <numeric>

#include "graph/analysis.h"
#include "graph/ids.h"

namespace antegrad {

ValueReplacer::ValueReplacer(Graph& graph)
    : graph_(graph),
      value_(graph.values.size()),
      storage_(graph.values.size()),
      is_output_(output_values(graph)),
      held_(graph.values.size(), false) {
  std::iota(value_.begin(), value_.end(), 0);
  std::iota(storage_.begin(), storage_.end(), 0);
  for (const Output& output : graph.outputs) {
    if (output.value == kNoValue) continue;
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
  erase_nodes(graph_, dead);
}

}  // namespace antegrad
