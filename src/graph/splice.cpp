#include "graph/splice.h"

#include <iterator>
#include <variant>

#include <antegrad/error.h>

namespace antegrad {
namespace {

/// Maps values of the part to values of the host graph.
class Renaming {
 public:
  Renaming(Graph& host, const Graph& part, const std::vector<ValueId>& inputs)
      : host_(host), part_(part), ids_(part.values.size(), kNoValue) {
    AG_CHECK(part.inputs.size() == inputs.size(), "one value of the host for each input");
    for (size_t i = 0; i < inputs.size(); ++i) ids_[part.inputs[i].value] = inputs[i];
  }

  ValueId operator()(ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (ids_[id] == kNoValue) ids_[id] = add(id);
    return ids_[id];
  }

 private:
  ValueId add(ValueId id) {
    const ValueId made = ids_[id] = host_.add(part_.value(id));
    if (part_.owns_storage(id)) return made;
    // The owner of the storage may not have occurred yet: nodes refer to values in any order of
    // ids.
    const ValueId owner = (*this)(ValueId(part_.value(id).storage));
    Value& value = host_.value(made);
    value.storage = value.alias_class = host_.value(owner).storage;
    return made;
  }

  Graph& host_;
  const Graph& part_;
  IdMap<ValueId, ValueId> ids_;  // by value of the part
};

}  // namespace

std::vector<ValueId> splice(Graph& host, size_t position, const Graph& part,
                            const std::vector<ValueId>& inputs, Phase phase, int32_t& next_id,
                            int32_t first_object) {
  AG_CHECK(part.generators.empty() && part.opaque_names.empty() && part.symbols.empty(),
           "a part without generators, symbols and objects of its own");
  Renaming rename(host, part, inputs);
  std::vector<Node> nodes = part.nodes;
  renumber_objects(nodes, first_object);
  for (Node& node : nodes) {
    AG_CHECK(node.tokens == 0, "a part without tokens");
    for (ValueId& input : node.inputs) input = rename(input);
    for (ValueId& output : node.outputs) output = rename(output);
    node.phase = phase;
    node.block = -1;
    node.recompute = Recompute::as_decided;
    node.id = next_id++;
  }
  host.nodes.insert(host.nodes.begin() + static_cast<std::ptrdiff_t>(position),
                    std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
  std::vector<ValueId> outputs;
  for (const Output& output : part.outputs) outputs.push_back(rename(output.value));
  return outputs;
}

void move_storage(Graph& graph, StorageId from, StorageId to) {
  for (Value& value : graph.values) {
    if (value.storage == from) value.storage = to;
    if (value.alias_class == from) value.alias_class = to;
  }
}

void renumber_objects(std::vector<Node>& nodes, int32_t by) {
  for (Node& node : nodes) {
    for (Attr& attr : node.args) {
      if (auto* object = std::get_if<attr::Opaque>(&attr.value)) object->index += by;
    }
  }
}

}  // namespace antegrad
