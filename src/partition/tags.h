#pragma once

/// \file
/// The meaning of the tags of checkpoints (Node::block, Node::recompute) for a partition.
///
/// A value that a checkpoint recomputes is *interior* if only nodes of the checkpoint read it in
/// the forward: it is never saved. Values that leave the outermost checkpoint are saved if the
/// backward needs them, so each checkpoint starts from the results of earlier ones. Values that
/// must not be computed twice are saved too. A node that must be recomputed and belongs to no
/// checkpoint (a gather of sharded parameters) is interior wherever it is read.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Whether a node must be recomputed and belongs to no checkpoint: its results are never saved, by
/// any partitioner.
inline bool is_never_saved(const Node& node) {
  return node.recompute == Recompute::must_recompute && node.block < 0 && node.repeatable();
}

/// The graph may be destroyed afterwards.
class Tags {
 public:
  explicit Tags(const Graph& joint);

  /// Whether there is a tag of a checkpoint.
  bool any() const { return any_; }
  /// Whether a value is recomputed and never saved.
  bool is_interior(ValueId id) const { return interior_[id]; }

  /// The innermost block that contains the producer of the value and all nodes of the forward that
  /// read it; -1 if there is none.
  int32_t home(ValueId id) const { return home_[id]; }
  /// The outermost block that contains `block` (possibly itself) and none of `others`; -1 for
  /// none.
  int32_t outermost_apart(int32_t block, const std::vector<int32_t>& others) const;
  /// Whether `inner` is `outer` or contained in it. No block (-1) is contained in another one; all
  /// are contained in none.
  bool is_within(int32_t inner, int32_t outer) const;

 private:
  int32_t common(int32_t a, int32_t b) const;

  std::vector<int32_t> around_;  // by block
  IdMap<ValueId, int32_t> home_;
  IdMap<ValueId, bool> interior_;
  bool any_ = false;
};

}  // namespace antegrad
