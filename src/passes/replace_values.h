#pragma once

/// \file
/// Bookkeeping of passes that let one value take the place of another: replaces it in everything
/// that comes later and hands on its storage.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Collects replacements while a pass walks the nodes in order; finish() completes them. The graph
/// must outlive it.
class ValueReplacer {
 public:
  explicit ValueReplacer(Graph& graph);

  /// From now on `with`, which is defined before, stands for `value`, whose node goes. Views of the
  /// storage that `value` owned become views of the storage of `with`.
  void replace(ValueId value, ValueId with);
  /// Brings the inputs of a node up to date. Call it for each node, in order.
  void update_inputs(Node& node) const;
  /// The storage of a value as it will be.
  StorageId storage(ValueId value) const;
  bool is_output(ValueId value) const { return is_output_[value]; }
  /// True when a graph output is a value of this storage.
  bool held_by_output(StorageId storage) const;
  /// Updates outputs and storages, and drops the nodes at which `dead` is true. A pass that
  /// replaced nothing leaves the graph as it was.
  void finish(const std::vector<bool>& dead);

 private:
  Graph& graph_;
  bool changed_ = false;
  IdMap<ValueId, ValueId> value_;        // what stands for it
  IdMap<StorageId, StorageId> storage_;  // what stands for it
  IdMap<ValueId, bool> is_output_;
  IdMap<StorageId, bool> held_;
};

}  // namespace antegrad
