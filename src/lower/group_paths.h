#pragma once

/// \file
/// Which formula of its recipe computes an element of a node at Level::exact: eager takes one in
/// whole blocks of vectors and another one in the rest of a row, by how the node's own operands lie
/// in memory, and by how it divided the elements among threads.

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"
#include "lower/code_builder.h"
#include "lower/eager_cpu.h"
#include "lower/eager_row.h"
#include "lower/group_elements.h"
#include "lower/group_layout.h"
#include "lower/group_rows.h"
#include "lower/recipe.h"

namespace antegrad::lower {

/// Of one group. Holds references to all that it is made from.
class GroupPaths {
 public:
  GroupPaths(const Graph& graph, const EagerCpu& cpu, const GroupElements& group,
             const GroupLayout& layout, const GroupSpace& space, CodeBuilder& code)
      : graph_(graph), cpu_(cpu), group_(group), layout_(layout), space_(space), code_(code) {}

  /// The node's value in the type of arithmetic. `usual` is the recipe's for operands that are not
  /// constant; `converted`: eager converted an operand before. Throws NoKernel where paths cannot
  /// be told in the loops of the group.
  Id value(int32_t position, const RecipeCall& call, const CodeBuilder::Site& site,
           const RecipeRow& usual, bool converted);

  /// How elements have to be divided among threads for the values so far; nothing if no bit depends
  /// on it.
  std::optional<ThreadSplit> split() const { return split_; }
  /// A node for which that is ThreadSplit::whole, or -1.
  int32_t whole() const { return whole_; }

 private:
  [[noreturn]] static void refuse(int32_t position, std::string reason);
  const std::string& name(int32_t position) const { return graph_.nodes[position].op.name(); }
  int64_t elements() const { return numel(graph_.value(group_.widest()).meta).constant(); }
  Id path(Id body, Id tail, int64_t block, const EagerRow& eager);
  Id in_row(int32_t position, const RecipeCall& call, const EagerRow& eager, int64_t block, Id body,
            Id tail);
  std::optional<Id> same_everywhere(const CodeBuilder::Site& site);

  const Graph& graph_;
  const EagerCpu& cpu_;
  const GroupElements& group_;
  const GroupLayout& layout_;
  const GroupSpace& space_;
  CodeBuilder& code_;
  std::optional<ThreadSplit> split_;  // once a value depends on it
  int32_t whole_ = -1;
};

}  // namespace antegrad::lower
