#include "memory/liveness.h"

#include <algorithm>

#include <antegrad/error.h>

namespace antegrad {

std::vector<StorageLife> liveness(const Graph& graph, const ByteRules& rules) {
  std::vector<StorageLife> lives;
  std::vector<int32_t> life_of(graph.values.size(), -1);  // by storage
  const auto define = [&](ValueId id, int32_t position) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::tensor || value.storage != id) return;
    life_of[static_cast<size_t>(id)] = static_cast<int32_t>(lives.size());
    lives.push_back({id, position, position, storage_bytes(value.meta, rules)});
  };
  const auto touch = [&](ValueId id, int32_t position) {
    if (id == kNoValue || graph.value(id).kind != ValueKind::tensor) return;
    const int32_t life = life_of[static_cast<size_t>(graph.value(id).storage)];
    AG_CHECK(life >= 0, "a storage is used before it is made");
    lives[static_cast<size_t>(life)].last = position;
  };
  for (const Input& input : graph.inputs) define(input.value, -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    for (const ValueId input : graph.nodes[i].inputs) touch(input, position);
    for (const ValueId output : graph.nodes[i].outputs) {
      if (output == kNoValue) continue;
      define(output, position);
      touch(output, position);
    }
  }
  for (const Output& output : graph.outputs) {
    touch(output.value, static_cast<int32_t>(graph.nodes.size()));
  }
  return lives;
}

}  // namespace antegrad
