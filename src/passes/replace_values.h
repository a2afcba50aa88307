#pragma once

/// \file
/// Bookkeeping for passes that replace one value by another: updates later uses and transfers the
/// storage.

#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Collects replacements while a pass walks the nodes in order; finish() completes them. The graph
/// must outlive this object.
class ValueReplacer {
 public:
  explicit ValueReplacer(Graph& graph);

  /// Replaces `value`, whose node will be removed, by the earlier value `with`. Views of the
  /// storage that `value` owned become views of the storage of `with`.
  void replace(ValueId value, ValueId with);
  /// Applies the replacements to the inputs of a node. Call it for each node, in order.
  void update_inputs(Node& node) const;
  /// The storage of a value after the replacements.
  StorageId storage(ValueId value) const;
  bool is_output(ValueId value) const { return is_output_[value]; }
  /// True if a graph output has this storage.
  bool held_by_output(StorageId storage) const;
  /// Updates outputs and storages, and removes the nodes for which `dead` is true. Without
  /// replacements the graph is unchanged.
  void finish(const std::vector<bool>& dead);

 private:
  Graph& graph_;
  bool changed_ = false;
  IdMap<ValueId, ValueId> value_;        // the replacement
  IdMap<StorageId, StorageId> storage_;  // the replacement
  IdMap<ValueId, bool> is_output_;
  IdMap<StorageId, bool> held_;
};

}  // namespace antegrad
