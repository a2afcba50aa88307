#include "memory/liveness.h"

#include "graph/analysis.h"

namespace antegrad {

std::vector<StorageLife> liveness(const Graph& graph, const ByteRules& rules) {
  std::vector<StorageLife> lives;
  const IdMap<StorageId, int32_t> last = last_storage_uses(graph, Uses::by_nodes_and_outputs);
  const auto define = [&](ValueId id, int32_t position) {
    if (!graph.is_tensor(id) || !graph.owns_storage(id)) return;
    const Value& value = graph.value(id);
    lives.push_back(
        {value.storage, position, last[value.storage], storage_bytes(value.meta, rules)});
  };
  for (const Input& input : graph.inputs) define(input.value, -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs) define(output, static_cast<int32_t>(i));
  }
  return lives;
}

}  // namespace antegrad
