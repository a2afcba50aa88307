#pragma once

/// \file
/// What the tags of checkpoints (Node::block, Node::recompute) mean for a partition.
///
/// A value that a checkpoint computes again is *interior* where only nodes of the checkpoint read it in the
/// forward: nobody keeps it. What leaves the outermost checkpoint is kept where the backward needs it, so that
/// each checkpoint starts from what the ones before it made, and so is what must not run twice.

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace antegrad {

/// Whether a node gives the same bits when it runs again, and nothing else happens.
bool may_run_again(const Node& node);
/// Whether the node can run again on saved states of its generators.
bool may_be_replayed(const Node& node);

/// The graph may go away.
class Tags {
 public:
  explicit Tags(const Graph& joint);

  /// Whether there is any tag at all.
  bool any() const { return any_; }
  /// Whether a value is computed again and never kept.
  bool is_interior(ValueId id) const { return interior_[static_cast<size_t>(id)]; }

  /// The innermost block that holds the node that made the value and all nodes of the forward that read it, -1
  /// when none does.
  int32_t home(ValueId id) const { return home_[static_cast<size_t>(id)]; }
  /// The outermost block around `block` (itself included) that is not around any of `others`; -1 for none.
  int32_t outermost_apart(int32_t block, const std::vector<int32_t>& others) const;
  /// Whether `inner` is `outer` or lies in it. No block (-1) lies in another one; all lie in none.
  bool is_within(int32_t inner, int32_t outer) const;

 private:
  int32_t common(int32_t a, int32_t b) const;

  std::vector<int32_t> around_;  // by block
  std::vector<int32_t> home_;    // by value
  std::vector<bool> interior_;   // by value
  bool any_ = false;
};

}  // namespace antegrad
