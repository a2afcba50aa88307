#include "partition/hooks/hooks.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/analysis.h"
#include "graph/splice.h"

namespace antegrad {
namespace {

/// A copy of `from` to `to` with these strides.
Node copy_node(ValueId from, ValueId to, const Shape& strides, Phase phase, int32_t id) {
  Node node;
  node.op = Op::intern("antegrad::restride.default");
  node.inputs = {from};
  node.args = {attr::Input{}, strides};
  node.outputs = {to};
  node.phase = phase;
  node.id = id;
  return node;
}

/// The position after all nodes that read or produce values of this storage.
size_t after_last_use(const Graph& graph, ValueId id) {
  return last_storage_uses(graph, Uses::by_nodes)[graph.value(id).storage] + 1;
}

/// The position of the first node that computes with values of this storage. Views of it before
/// that position are moved there.
size_t before_first_use(Graph& graph, ValueId id) {
  const auto reads = [&](const Node& node) {
    return std::ranges::any_of(node.inputs, [&](ValueId input) {
      return input != kNoValue && graph.value(input).storage == StorageId(id);
    });
  };
  const auto first = std::ranges::find_if(
      graph.nodes, [&](const Node& node) { return !node.op.traits().view && reads(node); });
  const auto views = std::stable_partition(graph.nodes.begin(), first,
                                           [&](const Node& node) { return !reads(node); });
  return views - graph.nodes.begin();
}

/// Adds the hooks' objects to the graph; returns the index of the first.
int32_t add_objects(Graph& graph, const Hooked& hooked) {
  const auto first = static_cast<int32_t>(graph.opaque_names.size());
  graph.opaque_names.insert(graph.opaque_names.end(), hooked.object_names.begin(),
                            hooked.object_names.end());
  return first;
}

/// Inlines packing. Returns the packed values; each owns its storage and occurs once.
std::vector<ValueId> pack(Graph& forward, HookedTensor& tensor, int32_t first_object,
                          int32_t& next_node) {
  const size_t position = after_last_use(forward, tensor.value);
  const size_t before = forward.nodes.size();
  std::vector<ValueId> packed = splice(forward, position, tensor.pack, {tensor.value},
                                       Phase::forward, next_node, first_object);
  size_t end = position + forward.nodes.size() - before;
  for (ValueId& value : packed) {
    if (forward.owns_storage(value)) continue;
    TensorMeta meta = forward.value(value).meta;
    meta.offset = 0;
    const ValueId copy = forward.add_tensor(meta);
    forward.nodes.insert(forward.nodes.begin() + static_cast<std::ptrdiff_t>(end++),
                         copy_node(value, copy, meta.strides, Phase::forward, next_node++));
    value = copy;
  }
  return packed;
}

/// Inlines unpacking. Recomputed forward nodes may read the tensor, so the inlined nodes have the
/// phase forward. The tensor's value becomes the result of the last of these nodes, or a copy of a
/// value that they return unchanged.
void unpack(Graph& backward, const HookedTensor& tensor, const std::vector<ValueId>& inputs,
            int32_t first_object, int32_t& next_node) {
  const size_t position = before_first_use(backward, tensor.value);
  const size_t before = backward.nodes.size();
  const ValueId found =
      splice(backward, position, tensor.unpack, inputs, Phase::forward, next_node, first_object)
          .front();
  const auto begin = backward.nodes.begin() + static_cast<std::ptrdiff_t>(position);
  const auto end = begin + static_cast<std::ptrdiff_t>(backward.nodes.size() - before);
  const bool is_input = std::find(inputs.begin(), inputs.end(), found) != inputs.end();
  const TensorMeta& meta = backward.value(tensor.value).meta;
  if (is_input || !backward.owns_storage(found) || backward.value(found).meta != meta) {
    backward.nodes.insert(
        end, copy_node(found, tensor.value, meta.strides, Phase::forward, next_node++));
    return;
  }
  for (auto node = begin; node != end; ++node) {
    std::ranges::replace(node->inputs, found, tensor.value);
    std::ranges::replace(node->outputs, found, tensor.value);
  }
  move_storage(backward, StorageId(found), StorageId(tensor.value));
}

TensorMeta packed_meta(const HookedTensor& tensor, size_t i) {
  TensorMeta meta = tensor.pack.value(tensor.pack.outputs[i].value).meta;
  meta.offset = 0;
  return meta;
}

/// Adds a tensor input with the id `wanted`, or with a new id if `wanted` is below `taken`.
ValueId add_input(Graph& graph, const TensorMeta& meta, ValueId wanted, ValueId taken) {
  if (wanted < taken) return graph.add_tensor(meta);
  graph.value(wanted) = {ValueKind::tensor, meta, StorageId(wanted), StorageId(wanted)};
  return wanted;
}

}  // namespace

bool can_be_hooked(const Graph& forward, ValueId saved) {
  const Value& value = forward.value(saved);
  return value.kind == ValueKind::tensor && forward.owns_storage(saved) && value.meta.offset == 0 &&
         span_bytes(value.meta) == numel(value.meta) * byte_size(value.meta.dtype);
}

void pack_saved(Graph& forward, Hooked& hooked) {
  std::unordered_map<ValueId, const HookedTensor*> by_value;
  const int32_t first_object = add_objects(forward, hooked);
  // In reverse order, so that values packed at the same position end up in order.
  for (auto tensor = hooked.tensors.rbegin(); tensor != hooked.tensors.rend(); ++tensor) {
    tensor->packed = pack(forward, *tensor, first_object, hooked.next_node);
    by_value.emplace(tensor->value, &*tensor);
  }
  std::vector<Output> outputs;
  for (Output& output : forward.outputs) {
    const auto it = by_value.find(output.value);
    if (output.kind != OutputKind::saved || it == by_value.end()) {
      outputs.push_back(std::move(output));
      continue;
    }
    for (const ValueId packed : it->second->packed) {
      output.value = packed;
      outputs.push_back(output);
    }
  }
  // Several hooks may return the same packed value, which is saved once.
  IdMap<ValueId, char> there(forward.values.size(), 0);
  std::erase_if(outputs, [&](const Output& output) {
    if (output.kind != OutputKind::saved) return false;
    return std::exchange(there[output.value], 1) != 0;
  });
  forward.outputs = std::move(outputs);
}

ForwardValues unpack_saved(Graph& backward, const Hooked& hooked) {
  if (hooked.tensors.empty()) return {};
  std::unordered_map<ValueId, const HookedTensor*> by_value;
  for (const HookedTensor& tensor : hooked.tensors) by_value.emplace(tensor.value, &tensor);
  ForwardValues forward_values;
  std::unordered_map<ValueId, ValueId> here;  // packed values of the forward
  std::vector<Input> inputs;
  std::vector<std::pair<const HookedTensor*, std::vector<ValueId>>> read;
  // New inputs keep their ids of the forward if these are free. They may only be taken in backwards
  // that were captured later.
  const ValueId taken(backward.values.size());
  // The remaining inputs get new ids after all of these.
  for (const HookedTensor& tensor : hooked.tensors) {
    for (const ValueId packed : tensor.packed) {
      backward.values.resize(std::max(backward.values.size(), packed.index() + 1));
    }
  }
  // Other saved values keep their ids, also if they are packed values.
  for (const Input& input : backward.inputs) {
    if (input.kind == InputKind::saved && !by_value.count(input.value)) {
      here.emplace(input.value, input.value);
    }
  }
  for (Input& input : backward.inputs) {
    const auto it = input.kind == InputKind::saved ? by_value.find(input.value) : by_value.end();
    if (it == by_value.end()) {
      inputs.push_back(std::move(input));
      continue;
    }
    const HookedTensor& tensor = *it->second;
    std::vector<ValueId> packed;
    for (size_t i = 0; i < tensor.packed.size(); ++i) {
      const auto [known, is_new] = here.emplace(tensor.packed[i], kNoValue);
      if (is_new) {
        known->second = add_input(backward, packed_meta(tensor, i), tensor.packed[i], taken);
        forward_values.emplace(known->second, tensor.packed[i]);
        input.value = known->second;
        inputs.push_back(input);
      }
      packed.push_back(known->second);
    }
    read.emplace_back(&tensor, std::move(packed));
  }
  backward.inputs = std::move(inputs);
  int32_t next_node = hooked.next_node;
  const int32_t first_object = add_objects(backward, hooked);
  for (const auto& [tensor, packed] : read) {
    unpack(backward, *tensor, packed, first_object, next_node);
  }
  return forward_values;
}

void apply_hooks(Partition& partition, Hooked& hooked) {
  if (hooked.tensors.empty()) return;
  // Same length, so that new values have the same ids in both graphs.
  auto& values = partition.forward.values;
  values.resize(std::max(values.size(), partition.backward.values.size()));
  pack_saved(partition.forward, hooked);
  partition.forward_values = unpack_saved(partition.backward, hooked);
  partition.plan = plan_call(partition.forward, partition.backward);
}

std::vector<ValueId> in_backward(const Graph& backward, std::vector<ValueId> values,
                                 const ForwardValues& forward_values) {
  std::unordered_map<ValueId, ValueId> here;  // by value of the forward
  for (const auto& [value, in_forward] : forward_values) here.emplace(in_forward, value);
  std::unordered_set<ValueId> read;
  for (const Input& input : backward.inputs) {
    if (input.kind == InputKind::saved) read.insert(input.value);
  }
  for (ValueId& value : values) {
    if (const auto it = here.find(value); it != here.end()) value = it->second;
  }
  std::erase_if(values, [&](ValueId value) { return !read.contains(value); });
  return values;
}

}  // namespace antegrad
