#include "passes/dce.h"

#include <algorithm>
#include <utility>

namespace antegrad {
namespace {

bool must_run(const Node& node) {
  const OpTraits& traits = node.op.traits();
  return traits.collective || traits.mutates;
}

}  // namespace

Graph dce(Graph graph) {
  std::vector<bool> needed(graph.values.size(), false);
  const auto need = [&needed](ValueId id) {
    if (id != kNoValue) needed[static_cast<size_t>(id)] = true;
  };
  for (const Output& output : graph.outputs) need(output.value);
  std::vector<bool> dead(graph.nodes.size(), false);
  bool any_dead = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool lives =
        must_run(node) || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
          return id != kNoValue && needed[static_cast<size_t>(id)];
        });
    dead[i] = !lives;
    any_dead = any_dead || dead[i];
    if (lives) std::for_each(node.inputs.begin(), node.inputs.end(), need);
  }
  if (!any_dead) return graph;
  size_t kept = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dead[i]) continue;
    if (kept != i) graph.nodes[kept] = std::move(graph.nodes[i]);
    ++kept;
  }
  graph.nodes.resize(kept);
  return graph;
}

}  // namespace antegrad
