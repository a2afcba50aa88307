#include "graph/compare.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "graph/same.h"
#include "graph/text.h"

namespace antegrad {
namespace {

bool same_value(const Graph& a, const Graph& b, ValueId id) {
  if (id == kNoValue || !a.values.contains(id) || !b.values.contains(id)) {
    return id == kNoValue || a.values.contains(id) == b.values.contains(id);
  }
  const Value& x = a.value(id);
  const Value& y = b.value(id);
  return x.kind == y.kind && x.storage == y.storage && x.alias_class == y.alias_class &&
         (x.kind != ValueKind::tensor || same(x.meta, y.meta));
}

/// Entries that differ in themselves or in the values that they define, or the lengths of the lists
/// if one ends first.
template <class Entry>
std::string list_difference(const char* what, const Graph& a, const Graph& b,
                            std::vector<Entry> Graph::*list, auto defined, auto text) {
  const std::vector<Entry>& x = a.*list;
  const std::vector<Entry>& y = b.*list;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const auto same_here = [&](ValueId id) { return same_value(a, b, id); };
    if (same(x[i], y[i]) && std::ranges::all_of(defined(x[i]), same_here)) continue;
    return fmt::format("{} {}: {} and {}", what, i, text(a, x[i]), text(b, y[i]));
  }
  if (x.size() == y.size()) return "";
  return fmt::format("numbers of {}s {} and {}", what, x.size(), y.size());
}

}  // namespace

std::string first_difference(const Graph& a, const Graph& b) {
  if (a.symbols != b.symbols) return "symbols";
  if (a.name != b.name) return fmt::format("names \"{}\" and \"{}\"", a.name, b.name);
  if (a.generators != b.generators) return "generators";
  if (a.opaque_names != b.opaque_names) return "names of opaque objects";
  if (a.blocks != b.blocks) return "blocks";
  auto difference = list_difference(
      "input", a, b, &Graph::inputs, [](const Input& input) { return std::array{input.value}; },
      input_text);
  if (difference.empty()) {
    difference = list_difference(
        "node", a, b, &Graph::nodes, [](const Node& node) -> const auto& { return node.outputs; },
        node_text);
  }
  if (difference.empty()) {
    difference = list_difference(
        "output", a, b, &Graph::outputs,
        [](const Output& /*output*/) { return std::array<ValueId, 0>(); },
        [](const Graph& /*graph*/, const Output& output) { return output_text(output); });
  }
  return difference;
}

}  // namespace antegrad
