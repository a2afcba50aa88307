#pragma once

/// \file
/// Ranks that plan one program together: rank 0 decides, since machines that measure, or prove
/// kernels, may decide differently, and a plan says when shards are gathered again.

#include <antegrad/options.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graph/graph.h"

namespace antegrad::compiler {

/// Every member is a collective: all ranks call it, in the same order. Throws DistributedError if
/// one does not.
class Team {
 public:
  /// Of the group whose collectives are in the graph; nothing if there are none, or if what the
  /// options choose decides alike everywhere.
  static std::optional<Team> of(const Graph& joint, const Options& options);

  bool leads() const;
  /// Makes sure that all ranks plan this graph under these options now, each on a device of its
  /// own.
  void meet(const Graph& joint, const Options& options) const;
  /// What `lead` returns on rank 0. A BudgetError of it is thrown on all ranks.
  std::string share(const std::function<std::string()>& lead) const;
  /// Whether all ranks say so.
  bool all(bool mine) const;

 private:
  struct Group;
  explicit Team(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  std::shared_ptr<Group> group_;
};

}  // namespace antegrad::compiler
