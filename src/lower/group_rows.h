#pragma once

/// \file
/// What reductions add to a group: which dimensions make a row, the layouts of results with one
/// element a row, and where the ends of pointwise nodes lie in rows.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lower/aten_recipes.h"
#include "lower/eager_cpu.h"
#include "lower/eager_row.h"
#include "lower/group_kernel.h"
#include "lower/group_layout.h"

namespace antegrad::lower {

/// The iteration space of a group, as atoms from the outermost on.
struct GroupSpace {
  Space kind = Space::elements;
  Atoms order;
  size_t row_atoms = 0;  ///< of rows and columns: the last ones, which are reduced
  /// Of rows that are channels: the last ones, which lie together in memory. 0 for other rows.
  size_t segment_atoms = 0;
  int32_t node = -1;  ///< a node that reduces them
};

/// The value that has all elements which a call runs over: its first result or, of a sum and of
/// parts, its first operand.
ValueId whole_of(const Node& node, const RecipeCall& call);

/// The layout of a result with one element a row: that of the whole without what is reduced.
/// `dimensions` is that of the result. Nothing if the whole is expanded.
std::optional<TensorLayout> layout_of_rows(const TensorMeta& whole, const TensorLayout& layout,
                                           const RecipeCall& call, size_t dimensions);

/// The layout of a sum over rows of `dimensions` dimensions: what layout_of_rows() leaves out.
/// Nothing if they are not the dimensions that are reduced.
std::optional<TensorLayout> layout_of_columns(const TensorLayout& layout, const RecipeCall& call,
                                              size_t dimensions);

/// The layout of an operand in the elements of `whole`, whose layout is known; nothing if it does
/// not fit.
std::optional<TensorLayout> operand_layout(const Graph& graph, const GroupLayout& layout,
                                           const RecipeCall& call, const RecipeOperand& operand,
                                           ValueId whole);

/// The space of a group with these calls, of which `order` are the atoms in memory. Throws NoKernel
/// if its reductions have no rows in common.
GroupSpace group_space(const GroupLayout& layout, const Graph& graph,
                       std::span<const std::pair<int32_t, RecipeCall>> calls, const Atoms& order);

/// Which of a pointwise node's two forms the elements of a row take.
enum class RowEnds : uint8_t {
  none,   ///< all elements are computed by the body
  rows,   ///< body and tail, whichever rows a call gets
  whole,  ///< body and tail, if a call gets all rows
  unknown,
};

/// `block`: elements of a block of the body; `elements`: all of the node; `a_thread`: those that
/// eager gave to a thread.
RowEnds row_ends(const GroupLayout& layout, const GroupSpace& space, const EagerRow& eager,
                 int64_t block, int64_t elements, int64_t a_thread);

}  // namespace antegrad::lower
