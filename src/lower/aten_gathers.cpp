#include "lower/aten_gathers.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace antegrad::lower {
namespace {

using GatherMade = std::variant<GatherCall, std::string>;

size_t rank_of(const Graph& graph, ValueId id) { return graph.value(id).meta.sizes.size(); }

/// The dimension that an argument names.
std::optional<size_t> dimension_of(const Attr& argument, size_t rank) {
  if (!argument.is<IntExpr>()) return {};
  auto dimension = argument.as<IntExpr>().maybe_constant().value_or(-1);
  if (dimension < 0) dimension += static_cast<int64_t>(rank);
  if (dimension < 0 || dimension >= static_cast<int64_t>(rank)) return {};
  return static_cast<size_t>(dimension);
}

/// The call that replaces neighbouring dimensions of the source by those of its indices.
GatherMade replaced(const Graph& graph, ValueId source, std::vector<GatherIndex> indices) {
  GatherCall call{source, std::move(indices), {}, 0, 0};
  call.first = call.indices.front().dimension;
  for (const GatherIndex& index : call.indices) {
    call.count = std::max(call.count, rank_of(graph, index.value));
  }
  const size_t last = call.indices.back().dimension;
  if (last - call.first + 1 != call.indices.size()) {
    return "indices of dimensions that are no neighbours";
  }
  for (size_t d = 0; d < rank_of(graph, source); ++d) {
    const size_t moved = d < call.first ? d : d + call.count - call.indices.size();
    const bool indexed = d >= call.first && d <= last;
    call.kept.push_back(indexed ? -1 : static_cast<int32_t>(moved));
  }
  return call;
}

/// index(self, indices), indices being a list with absent entries.
GatherMade of_index(const Graph& graph, const Node& node) {
  if (node.args.size() != 2 || !node.args[1].is<attr::InputList>()) return "unknown indices";
  std::vector<GatherIndex> indices;
  const auto& present = node.args[1].as<attr::InputList>().present;
  for (size_t d = 0; d < present.size(); ++d) {
    if (present[d]) indices.push_back({node.inputs[1 + indices.size()], d, true});
  }
  if (indices.empty()) return "no indices";
  return replaced(graph, node.inputs[0], std::move(indices));
}

/// embedding(weight, indices, ...)
GatherMade of_embedding(const Graph& graph, const Node& node) {
  return replaced(graph, node.inputs[0], {{node.inputs[1], 0, false}});
}

/// index_select(self, dim, index)
GatherMade of_index_select(const Graph& graph, const Node& node) {
  const auto dimension = dimension_of(node.args[1], rank_of(graph, node.inputs[0]));
  if (!dimension || rank_of(graph, node.inputs[1]) != 1) return "unknown indices";
  return replaced(graph, node.inputs[0], {{node.inputs[1], *dimension, false}});
}

/// gather(self, dim, index, sparse_grad)
GatherMade of_gather(const Graph& graph, const Node& node) {
  const size_t rank = rank_of(graph, node.inputs[0]);
  const auto dimension = dimension_of(node.args[1], rank);
  if (!dimension || rank_of(graph, node.inputs[1]) != rank) return "unknown indices";
  GatherCall call{node.inputs[0], {{node.inputs[1], *dimension, false}}, {}, 0, rank};
  for (size_t d = 0; d < rank; ++d) {
    call.kept.push_back(d == *dimension ? -1 : static_cast<int32_t>(d));
  }
  return call;
}

struct GatherRow {
  std::string_view name;
  GatherMade (*call)(const Graph& graph, const Node& node);
};

constexpr GatherRow kGathers[] = {
    {"aten::index.Tensor", of_index},
    {"aten::embedding.default", of_embedding},
    {"aten::index_select.default", of_index_select},
    {"aten::gather.default", of_gather},
};

const GatherRow* gather_row(std::string_view name) {
  const auto* row = std::ranges::find(kGathers, name, &GatherRow::name);
  return row == std::end(kGathers) ? nullptr : row;
}

/// Whether a tensor broadcasts to these dimensions of the result.
bool broadcasts(const TensorMeta& index, const TensorMeta& result, const GatherCall& call) {
  const size_t before = call.first + call.count - index.sizes.size();
  for (size_t d = 0; d < index.sizes.size(); ++d) {
    const int64_t size = index.sizes[d].constant();
    if (size != 1 && size != result.sizes[before + d].constant()) return false;
  }
  return true;
}

}  // namespace

bool is_gather(std::string_view name) { return gather_row(name) != nullptr; }

GatherMade gather_call(const Graph& graph, const Node& node) {
  const std::string& name = node.op.name();
  GatherMade made = gather_row(name)->call(graph, node);
  if (auto* reason = std::get_if<std::string>(&made)) return name + " has " + *reason;
  const auto& call = std::get<GatherCall>(made);
  const TensorMeta& result = graph.value(node.outputs[0]).meta;
  const size_t kept = static_cast<size_t>(
      std::ranges::count_if(call.kept, [](int32_t dimension) { return dimension >= 0; }));
  const bool along = call.count == result.sizes.size();
  if (!along && kept + call.count != result.sizes.size()) return name + " has unknown indices";
  if (graph.value(call.source).meta.dtype != result.dtype) return name + " converts";
  for (const GatherIndex& index : call.indices) {
    const TensorMeta& meta = graph.value(index.value).meta;
    if (meta.dtype != DType::i64 && meta.dtype != DType::i32) {
      return name + " has indices that are no i64 or i32";
    }
    if (!broadcasts(meta, result, call)) return name + " has indices of another shape";
  }
  return made;
}

}  // namespace antegrad::lower
