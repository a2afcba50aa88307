#pragma once

/// \file
/// How the indices of the values of a group relate: each dimension of a tensor is a product of
/// *atoms*, dimensions that all values of the group share. Views and broadcasts regroup, reorder or
/// leave out atoms, and split one where a view cuts a dimension.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace antegrad::lower {

using Atoms = std::vector<int32_t>;       ///< outer to inner
using TensorLayout = std::vector<Atoms>;  ///< atoms of each dimension

class GroupLayout {
 public:
  explicit GroupLayout(const Graph& graph) : graph_(graph) {}

  int64_t size(int32_t atom) const { return sizes_[atom]; }

  bool has(ValueId id) const { return layouts_.contains(id); }
  const TensorLayout& of(ValueId id) const { return layouts_.at(id); }
  void set(ValueId id, TensorLayout layout) { layouts_[id] = std::move(layout); }
  /// One fresh atom for each dimension of the value that has more than one element.
  void set_fresh(ValueId id);

  /// The layout of a tensor that broadcasts to `wide`, a value with a layout; nothing if it does
  /// not.
  std::optional<TensorLayout> broadcast(ValueId narrow, ValueId wide) const;
  /// The layout of `to`, which shows the same memory as `from`; nothing if it shows a part of it.
  /// An expanded dimension (of stride 0) has no atoms. May split atoms.
  std::optional<TensorLayout> of_view(ValueId to, ValueId from, const TensorLayout& from_layout);

  /// The stride of each atom in a tensor of this layout; atoms that it has not have none.
  std::map<int32_t, int64_t> strides(ValueId id, const TensorLayout& layout) const;

  /// Atoms of a value from the outermost in memory on; nothing if elements share memory.
  std::optional<Atoms> memory_order(ValueId id) const;

 private:
  int32_t add(int64_t size);
  void split(int32_t atom, int64_t inner);

  const Graph& graph_;
  std::vector<int64_t> sizes_;
  std::map<ValueId, TensorLayout> layouts_;
};

/// Sizes and strides of a tensor, which must be numbers.
int64_t size_at(const TensorMeta& meta, size_t dimension);
int64_t stride_at(const TensorMeta& meta, size_t dimension);

/// All atoms of a layout.
Atoms atoms_of(const TensorLayout& layout);

}  // namespace antegrad::lower
