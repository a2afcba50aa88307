#pragma once

/// \file
/// The calls of a group, and which elements each of its values has: layouts over atoms that all of
/// them share, found from the value with most elements on.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "lower/aten_recipes.h"
#include "lower/eager_cpu.h"
#include "lower/group_layout.h"
#include "lower/storage_readers.h"

namespace antegrad::lower {

/// What a node computes, by its position in Graph::nodes.
using NodeCall = std::pair<int32_t, RecipeCall>;

class GroupElements {
 public:
  /// `nodes` and `readers`: as for group_kernel(). Throws NoKernel.
  GroupElements(const Graph& graph, std::span<const int32_t> nodes, const StorageReaders& readers,
                const EagerCpu& cpu, Level level);

  /// In the order of the nodes, without those of factories.
  const std::vector<NodeCall>& calls() const { return calls_; }
  /// Results of a call that the kernel makes and whose elements it runs over, or rows of these; so
  /// none that is made of parts.
  std::vector<ValueId> results(int32_t position, const RecipeCall& call) const;

  /// Of each value that a call makes, and of the first operand of a sum and of parts.
  GroupLayout& layout() { return layout_; }
  /// A value with all elements, and its atoms in memory.
  ValueId widest() const { return widest_; }
  const Atoms& order() const { return order_; }

  /// What a value of the group is a view of.
  ValueId base_of(ValueId id) const;
  bool makes(ValueId base) const { return maker_.contains(base); }
  /// Whether result i of a call is a sum over rows.
  static bool is_sum_of_rows(const RecipeCall& call, size_t i);
  /// The call that makes numbers which nobody outside reads; null if there is none.
  const NodeCall* factory(ValueId base) const;
  /// The layout of a factory's result of which `operand`, of this layout, is a view.
  std::optional<TensorLayout> layout_of_factory(ValueId operand, ValueId base,
                                                const TensorLayout& layout);
  /// Whether somebody outside of the group reads the memory of a value.
  bool is_read_outside(ValueId id) const;

 private:
  const TensorMeta& meta(ValueId id) const { return graph_.value(id).meta; }
  const std::string& name(int32_t position) const { return graph_.nodes[position].op.name(); }
  ValueId result(int32_t position) const { return graph_.nodes[position].outputs[0]; }
  ValueId whole(int32_t position, const RecipeCall& call) const;

  void collect(std::span<const int32_t> nodes, const EagerCpu& cpu, Level level);
  /// The layout of an operand that the group makes, by the layout of what it is a view of.
  std::optional<TensorLayout> layout_of_operand(ValueId operand);
  /// Operands from the layout of the result. Whether one was found.
  bool find_operand_layouts(int32_t position, const RecipeCall& call);
  /// The result from the layouts of operands.
  bool find_result_layout(int32_t position, const RecipeCall& call);
  /// The operand from the elements of the group, the result from the operand.
  bool find_layouts_of_sum(int32_t position, const RecipeCall& call);
  /// Of the parts, which have one shape, each from another one.
  bool find_layouts_of_parts(int32_t position, const RecipeCall& call);
  /// Operands that the group makes, which have elements of `whole`. Whether one was found.
  bool find_operands_of(int32_t position, const RecipeCall& call, ValueId whole);
  /// Of results that have one element a row.
  void set_layouts_of_rows(int32_t position, const RecipeCall& call);
  /// Parts of a group that share no value may run side by side over elements of one shape.
  bool align_another_part();
  bool has_layouts(int32_t position, const RecipeCall& call) const;
  void find_layouts();
  void check_operands(int32_t position, const RecipeCall& call, bool last);
  void check_rows(int32_t position, const RecipeCall& call);
  /// Throws NoKernel if the call reads a sum over rows, which nobody has before the last row.
  void check_reads(int32_t position, const RecipeCall& call) const;
  void order_atoms();
  /// A result of an operator over rows that has all elements; kNoValue if there is none.
  ValueId made_of_rows() const;
  std::optional<Atoms> order_of_widest() const;

  const Graph& graph_;
  std::span<const int32_t> nodes_;
  const StorageReaders& readers_;
  GroupLayout layout_;
  std::vector<NodeCall> calls_;
  std::map<ValueId, ValueId> viewed_;  // by view: its base
  std::map<ValueId, int32_t> maker_;
  std::map<ValueId, NodeCall> factories_;  // that nobody else reads
  ValueId widest_ = kNoValue;
  Atoms order_;
};

}  // namespace antegrad::lower
