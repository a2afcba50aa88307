#include "lower/group_rows.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>

namespace antegrad::lower {
namespace {

/// The atoms that a call reduces, in the order in which eager did: that of dimensions or, for sums,
/// that of memory.
Atoms reduced_atoms(const GroupLayout& layout, ValueId whole, const RecipeCall& call) {
  Atoms atoms;
  for (const int32_t d : call.reduced) {
    const Atoms& of_dimension = layout.of(whole)[d];
    atoms.insert(atoms.end(), of_dimension.begin(), of_dimension.end());
  }
  if (!call.recipe->has_elements()) {
    const auto strides = layout.strides(whole, layout.of(whole));
    std::ranges::stable_sort(atoms, std::greater<>(),
                             [&](int32_t atom) { return strides.at(atom); });
  }
  return atoms;
}

/// How many atoms of a channel lie behind those that count channels.
size_t segment_atoms(const GroupLayout& layout, ValueId whole) {
  size_t count = 0;
  for (size_t d = 2; d < layout.of(whole).size(); ++d) count += layout.of(whole)[d].size();
  return count;
}

/// The atoms of channels, then those of a channel; nothing if they do not lie in memory as in a
/// contiguous tensor.
std::optional<Atoms> order_of_channels(const Atoms& order, const Atoms& channel, size_t segment) {
  const size_t images = channel.size() - segment;
  const size_t channels = order.size() - channel.size();
  if (order.size() < channel.size()) return {};
  Atoms turned(order);
  std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(images),
              turned.begin() + static_cast<std::ptrdiff_t>(images + channels));
  if (!std::ranges::equal(std::span(turned).last(channel.size()), channel)) return {};
  return turned;
}

}  // namespace

ValueId whole_of(const Node& node, const RecipeCall& call) {
  return call.runs_over_operand() ? call.operands[0].value : node.outputs[0];
}

std::optional<TensorLayout> layout_of_rows(const TensorMeta& whole, const TensorLayout& layout,
                                           const RecipeCall& call, size_t dimensions) {
  TensorLayout kept;
  const bool keeps = dimensions == layout.size();
  for (size_t d = 0; d < layout.size(); ++d) {
    if (layout[d].empty() && size_at(whole, d) != 1) return {};
    if (std::ranges::find(call.reduced, static_cast<int32_t>(d)) == call.reduced.end()) {
      kept.push_back(layout[d]);
    } else if (keeps) {
      kept.emplace_back();
    }
  }
  return kept;
}

std::optional<TensorLayout> layout_of_columns(const TensorLayout& layout, const RecipeCall& call,
                                              size_t dimensions) {
  if (dimensions != call.reduced.size()) return {};
  TensorLayout kept;
  for (const int32_t d : call.reduced) kept.push_back(layout[d]);
  return kept;
}

std::optional<TensorLayout> operand_layout(const Graph& graph, const GroupLayout& layout,
                                           const RecipeCall& call, const RecipeOperand& operand,
                                           ValueId whole) {
  if (!operand.of_row) return layout.broadcast(operand.value, whole);
  const size_t dimensions = graph.value(operand.value).meta.sizes.size();
  return layout_of_rows(graph.value(whole).meta, layout.of(whole), call, dimensions);
}

GroupSpace group_space(const GroupLayout& layout, const Graph& graph,
                       std::span<const std::pair<int32_t, RecipeCall>> calls, const Atoms& order) {
  GroupSpace space{.order = order};
  Atoms row;
  bool channels = false;
  for (const auto& [position, call] : calls) {
    if (call.reduced.empty()) continue;
    const Node& node = graph.nodes[position];
    Atoms atoms = reduced_atoms(layout, whole_of(node, call), call);
    if (space.node >= 0 && atoms != row) {
      throw NoKernel{position, node.op.name() + " reduces other dimensions than its group"};
    }
    if (space.node >= 0 && (call.recipe->over != space.kind || call.recipe->channels != channels)) {
      throw NoKernel{position, node.op.name() + " is no reduction of rows as others of its group"};
    }
    space.node = position;
    space.kind = call.recipe->over;
    channels = call.recipe->channels;
    row = std::move(atoms);
  }
  if (space.node < 0) return space;
  const bool rows = space.kind == Space::rows;
  space.row_atoms = row.size();
  if (channels) {
    space.segment_atoms = segment_atoms(layout, graph.nodes[space.node].outputs[0]);
    const auto turned = order_of_channels(order, row, space.segment_atoms);
    if (!turned) {
      const std::string& name = graph.nodes[space.node].op.name();
      throw NoKernel{space.node, name + " has channels in another order in memory"};
    }
    space.order = *turned;
    return space;
  }
  const auto place = [&](size_t count) {
    return rows ? std::span(order).last(count) : std::span(order).first(count);
  };
  if (row.size() > order.size() || !std::ranges::equal(row, place(row.size()))) {
    throw NoKernel{space.node, graph.nodes[space.node].op.name() +
                                   " reduces other dimensions in memory than its group"};
  }
  if (!rows) {
    std::rotate(space.order.begin(), space.order.begin() + std::ssize(row), space.order.end());
  }
  return space;
}

RowEnds row_ends(const GroupLayout& layout, const GroupSpace& space, const EagerRow& eager,
                 int64_t block, int64_t elements, int64_t a_thread) {
  int64_t row = 1;
  for (size_t i = eager.order.size() - eager.row; i < eager.order.size(); ++i) {
    row *= layout.size(eager.order[i]);
  }
  if (row % block == 0 && a_thread % block == 0) return RowEnds::none;
  if (a_thread < elements || eager.row < space.row_atoms) return RowEnds::unknown;
  if (space.segment_atoms > 0) return RowEnds::unknown;
  if (space.kind == Space::columns) return RowEnds::unknown;
  return eager.row == space.row_atoms ? RowEnds::rows : RowEnds::whole;
}

}  // namespace antegrad::lower
