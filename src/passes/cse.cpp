#include "passes/cse.h"

#include <algorithm>
#include <unordered_map>

#include "graph/hash_bits.h"
#include "passes/replace_values.h"

namespace antegrad {
namespace {

/// Uninitialised memory may be allocated again, but not shared.
bool may_merge(const Node& node) {
  const OpTraits& traits = node.op.traits();
  return traits.known && traits.repeatable() && node.tokens == 0;
}

uint64_t hash_of(const Node& node) {
  uint64_t hash = node.op.hash();
  for (const ValueId input : node.inputs)
    hash = mix_bits(hash, static_cast<uint64_t>(input.number()));
  for (const Attr& arg : node.args) hash = mix_bits(hash, hash_value(arg));
  return hash;
}

bool same_results(const Graph& graph, const Node& a, const Node& b) {
  if (a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if ((a.outputs[i] == kNoValue) != (b.outputs[i] == kNoValue)) return false;
    if (a.outputs[i] == kNoValue) continue;
    const Value& x = graph.value(a.outputs[i]);
    const Value& y = graph.value(b.outputs[i]);
    if (x.kind != y.kind || x.meta != y.meta) return false;
  }
  return true;
}

bool same_call(const Graph& graph, const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.args == b.args && same_results(graph, a, b);
}

bool phases_allow(const Node& kept, const Node& dropped) {
  if (kept.phase == dropped.phase) return true;
  return kept.phase == Phase::forward && !kept.op.traits().factory;
}

/// The caller may write to results before the backward runs. A backward that recomputes such a
/// value must keep doing so, as in eager.
bool stays_ours(const ValueReplacer& replacer, const Node& kept, const Node& dropped) {
  if (kept.phase == dropped.phase) return true;
  return std::ranges::none_of(kept.outputs, [&](ValueId id) {
    return id != kNoValue && replacer.held_by_output(replacer.storage(id));
  });
}

/// Values that a checkpoint recomputes are its own. Merged with others they would have to be saved.
bool blocks_allow(const Node& kept, const Node& dropped) {
  return kept.phase != dropped.phase ||
         (kept.block == dropped.block && kept.recompute == dropped.recompute);
}

/// Merging turns the outputs of each pair into one value. That is allowed unless both are graph
/// outputs.
bool outputs_allow(const ValueReplacer& replacer, const Node& kept, const Node& dropped) {
  for (size_t i = 0; i < kept.outputs.size(); ++i) {
    const ValueId a = kept.outputs[i];
    const ValueId b = dropped.outputs[i];
    if (a == kNoValue) continue;
    if (replacer.is_output(a) && replacer.is_output(b)) return false;
    const StorageId x = replacer.storage(a);
    const StorageId y = replacer.storage(b);
    if (x != y && replacer.held_by_output(x) && replacer.held_by_output(y)) return false;
  }
  return true;
}

}  // namespace

Graph cse(Graph graph) {
  ValueReplacer replacer(graph);
  std::vector<bool> dead(graph.nodes.size(), false);
  std::unordered_multimap<uint64_t, size_t> seen;
  seen.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    replacer.update_inputs(node);
    if (!may_merge(node)) continue;
    const uint64_t hash = hash_of(node);
    const auto [first, last] = seen.equal_range(hash);
    auto earlier = first;
    for (; earlier != last; ++earlier) {
      const Node& kept = graph.nodes[earlier->second];
      if (same_call(graph, kept, node) && phases_allow(kept, node) && blocks_allow(kept, node) &&
          outputs_allow(replacer, kept, node) && stays_ours(replacer, kept, node)) {
        break;
      }
    }
    if (earlier == last) {
      seen.emplace(hash, i);
      continue;
    }
    const Node& kept = graph.nodes[earlier->second];
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] != kNoValue) replacer.replace(node.outputs[k], kept.outputs[k]);
    }
    dead[i] = true;
  }
  replacer.finish(dead);
  return graph;
}

}  // namespace antegrad
