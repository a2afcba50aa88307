#include "fusion/loops.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "fusion/fusing.h"

namespace antegrad {
namespace {

using Sizes = std::vector<int64_t>;

Sizes sizes_of(const Value& value, const std::vector<int64_t>& symbols) {
  Sizes sizes;
  for (const IntExpr& size : value.meta.sizes) sizes.push_back(size.evaluate(symbols));
  return sizes;
}

int64_t count(const Sizes& sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) return 0;
  }
  return elements;
}

/// The number of elements of each tensor output; nothing if the outputs differ or there is none.
std::optional<int64_t> elements_made(const Graph& graph, const Node& node,
                                     const std::vector<int64_t>& symbols) {
  std::optional<int64_t> made;
  for (const ValueId id : node.outputs) {
    if (id == kNoValue || graph.value(id).kind == ValueKind::token) continue;
    if (graph.value(id).kind != ValueKind::tensor) return {};
    const int64_t here = count(sizes_of(graph.value(id), symbols));
    if (here == 0 || (made && *made != here)) return {};
    made = here;
  }
  return made;
}

/// By dimension, whether it is reduced: argument 1 of all reductions over dimensions. Nothing if
/// the graph does not say.
std::optional<std::vector<bool>> reduced_dims(const Node& node, size_t rank) {
  if (node.args.size() < 2) return {};
  std::vector<int64_t> dims;
  if (node.args[1].is<IntExpr>()) {
    dims.push_back(node.args[1].as<IntExpr>().maybe_constant().value_or(0));
  } else if (node.args[1].is<Shape>()) {
    for (const IntExpr& dim : node.args[1].as<Shape>()) {
      dims.push_back(dim.maybe_constant().value_or(0));
    }
  } else {
    return {};
  }
  std::vector<bool> reduced(rank, false);
  for (const int64_t dim : dims) {
    const int64_t place = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
    if (place < 0 || place >= static_cast<int64_t>(rank)) return {};
    reduced[place] = true;
  }
  return reduced;
}

std::optional<Loops> reduction_loops(const Graph& graph, const Node& node, int64_t made,
                                     const std::vector<int64_t>& symbols) {
  if (node.inputs.size() != 1 || graph.value(node.inputs[0]).kind != ValueKind::tensor) return {};
  const Sizes sizes = sizes_of(graph.value(node.inputs[0]), symbols);
  const int64_t read = count(sizes);
  if (read == 0 || read % made != 0) return {};
  const Loops rows{made, read / made, true, false};
  if (made == 1) return rows;
  const auto reduced = reduced_dims(node, sizes.size());
  if (!reduced) return {};
  // Dimensions of size 1 fit at any position.
  std::vector<bool> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) order.push_back((*reduced)[i]);
  }
  if (std::is_sorted(order.begin(), order.end())) return rows;
  if (std::is_sorted(order.rbegin(), order.rend())) return Loops{made, read / made, true, true};
  return {};
}

/// Operators over rows of an input. An argument names the dimension, which has to be the last one,
/// or gives the sizes of those that make a row; the input itself means the last dimension, and
/// kChannels all but the second one.
struct RowOperator {
  std::string_view name;
  size_t input;
  size_t argument;
  size_t shared;
};

constexpr size_t kChannels = static_cast<size_t>(-1);

constexpr RowOperator kRowOperators[] = {
    {"aten::_softmax.default", 0, 1, 1},
    {"aten::_log_softmax.default", 0, 1, 1},
    {"aten::_softmax_backward_data.default", 0, 2, 1},
    {"aten::_log_softmax_backward_data.default", 0, 2, 1},
    {"aten::native_layer_norm.default", 0, 1, 3},
    {"aten::native_layer_norm_backward.default", 0, 2, 1},
    {"aten::nll_loss_backward.default", 1, 1, 1},
    {"antegrad::cross_entropy_rows.default", 0, 0, 0},
    {"antegrad::cross_entropy_backward.default", 0, 0, 1},
    {"aten::_native_batch_norm_legit_functional.default", 0, kChannels, 5},
    {"functional__aten::native_batch_norm.default", 0, kChannels, 5},
    {"aten::native_batch_norm_backward.default", 0, kChannels, 3},
};

/// Operators whose results have their inputs side by side.
constexpr std::string_view kOperatorsOfParts[] = {"aten::cat.default", "aten::stack.default"};

/// The size of the dimensions that a row operator names; 0 if they are not the last ones.
int64_t depth_of(const RowOperator& row, const Node& node, const Sizes& sizes,
                 const std::vector<int64_t>& symbols) {
  if (row.argument == kChannels) return sizes.size() < 2 ? 0 : count(sizes) / sizes[1];
  const Attr& argument = node.args[row.argument];
  if (row.argument == row.input) return sizes.empty() ? 0 : sizes.back();
  if (argument.is<Shape>()) {
    int64_t depth = 1;
    for (const IntExpr& size : argument.as<Shape>()) depth *= size.evaluate(symbols);
    return depth;
  }
  if (sizes.empty() || !argument.is<IntExpr>()) return 0;
  const auto last = static_cast<int64_t>(sizes.size()) - 1;
  const int64_t dimension = argument.as<IntExpr>().maybe_constant().value_or(0);
  return dimension == -1 || dimension == last ? sizes.back() : 0;
}

bool makes_whole_numbers(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](ValueId id) {
    return graph.is_tensor(id) && !is_floating(graph.value(id).meta.dtype);
  });
}

}  // namespace

std::optional<Loops> loops_of(const Graph& graph, const Node& node,
                              const std::vector<int64_t>& symbols) {
  const OpTraits& traits = node.op.traits();
  if (!fusing_of(traits).generated || traits.view || traits.has_side_effects()) return {};
  const bool from_nothing = traits.factory || !traits.reads_data;
  if (traits.uninitialized()) return {};
  if (from_nothing && traits.random && makes_whole_numbers(graph, node)) return {};
  const auto made = elements_made(graph, node, symbols);
  if (!made) return {};
  if (traits.reduction) return reduction_loops(graph, node, *made, symbols);
  return Loops{*made, 1, false, false};
}

std::optional<RowLoops> row_loops_of(const Graph& graph, const Node& node,
                                     const std::vector<int64_t>& symbols) {
  const auto* row = std::ranges::find(kRowOperators, node.op.name(), &RowOperator::name);
  if (row == std::end(kRowOperators) || row->input >= node.inputs.size()) return {};
  const ValueId input = node.inputs[row->input];
  const bool channels = row->argument == kChannels;
  if (!graph.is_tensor(input) || (!channels && row->argument >= node.args.size())) return {};
  const Sizes sizes = sizes_of(graph.value(input), symbols);
  const int64_t elements = count(sizes);
  const int64_t depth = elements == 0 ? 0 : depth_of(*row, node, sizes, symbols);
  if (depth == 0 || elements % depth != 0) return {};
  return RowLoops{{elements / depth, depth, true, false, channels}, row->shared};
}

std::optional<Loops> part_loops_of(const Graph& graph, const Node& node,
                                   const std::vector<int64_t>& symbols) {
  const bool parts =
      std::ranges::find(kOperatorsOfParts, node.op.name()) != std::end(kOperatorsOfParts);
  if (!parts || node.inputs.empty()) return {};
  const Sizes sizes = sizes_of(graph.value(node.inputs[0]), symbols);
  const int64_t elements = count(sizes);
  const bool same = std::ranges::all_of(node.inputs, [&](ValueId input) {
    return graph.is_tensor(input) && sizes_of(graph.value(input), symbols) == sizes;
  });
  if (!same || elements == 0) return {};
  return Loops{elements, 1, false, false};
}

std::optional<Loops> window_loops_of(const Graph& graph, const Node& node,
                                     const std::vector<int64_t>& symbols) {
  if (node.op.name() != "aten::max_pool2d_with_indices.default") return {};
  const auto made = elements_made(graph, node, symbols);
  return made ? std::optional(Loops{*made, 1, false, false}) : std::nullopt;
}

bool only_shows(const Graph& graph, const Node& node) {
  const OpTraits& traits = node.op.traits();
  if (!traits.view || !traits.no_op_when_same_meta || node.inputs.size() != 1) return false;
  const Value& base = graph.value(node.inputs[0]);
  return std::ranges::all_of(node.outputs, [&](ValueId id) {
    return id == kNoValue || (graph.value(id).kind == ValueKind::tensor &&
                              graph.value(id).meta.dtype == base.meta.dtype);
  });
}

std::optional<Loops> common_loops(const Loops& a, const Loops& b, bool apart) {
  if ((a.reduces || b.reduces) && apart) return {};
  if (a.reduces && b.reduces) {
    const bool same = a.rows == b.rows && a.depth == b.depth && a.columns == b.columns &&
                      a.channels == b.channels;
    return same ? std::optional(a) : std::nullopt;
  }
  const Loops& reduction = a.reduces ? a : b;
  const Loops& other = a.reduces ? b : a;
  const bool fits = other.rows == reduction.rows || other.rows == reduction.elements();
  return fits ? std::optional(reduction) : std::nullopt;
}

bool broadcasts_into(const Loops& small, const Loops& large) {
  return !small.reduces && small.rows < large.elements() && large.elements() % small.rows == 0;
}

}  // namespace antegrad
