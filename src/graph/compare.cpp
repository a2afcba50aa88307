#include "graph/compare.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/text.h"

namespace antegrad {
namespace {

bool same_value(const Graph& a, const Graph& b, ValueId id) {
  if (id == kNoValue) return true;
  if (!a.values.contains(id) || !b.values.contains(id)) {
    return !a.values.contains(id) && !b.values.contains(id);
  }
  const Value& x = a.value(id);
  const Value& y = b.value(id);
  return x.kind == y.kind && x.storage == y.storage && x.alias_class == y.alias_class &&
         (x.kind != ValueKind::tensor || x.meta == y.meta);
}

bool same_node(const Graph& a, const Graph& b, const Node& x, const Node& y) {
  const auto same = [&](ValueId id) { return same_value(a, b, id); };
  return x == y && std::ranges::all_of(x.outputs, same) && std::ranges::all_of(x.inputs, same);
}

std::string count_difference(const char* what, size_t a, size_t b) {
  return a == b ? "" : fmt::format("{} {} and {}", what, a, b);
}

}  // namespace

std::string first_difference(const Graph& a, const Graph& b) {
  if (a.name != b.name) return fmt::format("names \"{}\" and \"{}\"", a.name, b.name);
  if (a.symbols != b.symbols) return "symbols";
  if (a.generators != b.generators) return "generators";
  if (a.opaque_names != b.opaque_names) return "names of opaque objects";
  if (a.blocks != b.blocks) return "blocks";
  const size_t inputs = std::min(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < inputs; ++i) {
    const bool same = a.inputs[i] == b.inputs[i] && same_value(a, b, a.inputs[i].value);
    if (!same)
      return fmt::format("input {}: {} and {}", i, input_text(a, a.inputs[i]),
                         input_text(b, b.inputs[i]));
  }
  const size_t nodes = std::min(a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < nodes; ++i) {
    if (same_node(a, b, a.nodes[i], b.nodes[i])) continue;
    return fmt::format("node {}: {} and {}", i, node_text(a, a.nodes[i]), node_text(b, b.nodes[i]));
  }
  const size_t outputs = std::min(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < outputs; ++i) {
    if (a.outputs[i] != b.outputs[i])
      return fmt::format("output {}: {} and {}", i, output_text(a.outputs[i]),
                         output_text(b.outputs[i]));
  }
  for (const std::string& difference :
       {count_difference("numbers of inputs", a.inputs.size(), b.inputs.size()),
        count_difference("numbers of nodes", a.nodes.size(), b.nodes.size()),
        count_difference("numbers of outputs", a.outputs.size(), b.outputs.size())}) {
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace antegrad
