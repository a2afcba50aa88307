#include "passes/dce.h"

#include <vector>

#include "graph/analysis.h"

namespace antegrad {

Graph dce(Graph graph) {
  IdMap<ValueId, bool> needed = output_values(graph);
  std::vector<bool> dead = needed_nodes(graph, needed, [&](int32_t i) {
    const Node& node = graph.nodes[i];
    return node.op.traits().has_side_effects() || any_marked(node.outputs, needed);
  });
  dead.flip();
  erase_nodes(graph, dead);
  return graph;
}

}  // namespace antegrad
