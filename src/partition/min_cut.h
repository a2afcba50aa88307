#pragma once

/// \file
/// The minimum-cut partition: saves the cheapest set of values from which the backward can be
/// computed, where what is cheap to compute again need not be saved.
///
/// The joint graph becomes a network (rules.h says what may run again and what saving costs); its
/// minimum cut nearest to the backward is the saved set. Rules, weights and names of options are
/// those of the reference (torch/_functorch/partitioners.py, docs/partition.md); options with another
/// comment are ours.
///
/// Run no_ops(), size_only_inputs(), cse() and dce() (passes/) before. Takes time about linear in the
/// size of the graph.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition/partition.h"

namespace antegrad {

struct MinCutOptions {
  /// Bans: what is banned is not computed again, so it is saved if the backward reads it.
  bool ban_recompute_used_far_apart = true;
  bool ban_recompute_long_fusible_chains = true;
  bool ban_recompute_materialized_backward = true;
  bool ban_recompute_not_in_allowlist = true;
  bool ban_recompute_reductions = true;
  /// Ours; the reference has no switch for it.
  bool ban_recompute_compute_intensive = true;
  /// Turns off the bans that weigh time against memory: used_far_apart, long_fusible_chains,
  /// materialized_backward and not_in_allowlist.
  bool aggressive_recomputation = false;
  /// In steps from the first that runs in the backward; what is further away is banned.
  int32_t max_dist_from_bw = 1000;

  /// Views are never saved themselves, since what is saved owns its storage. Where this is off they
  /// weigh as in the reference, as if they were copies, and their bases are saved for them. (The
  /// reference has it off.)
  bool recompute_views = true;
  /// Parameters, buffers and constants cost nothing to save.
  bool treat_parameters_as_free_to_save = true;
  /// Ours: casts of such a tensor to fewer bytes are computed again from it, never saved.
  bool recompute_low_precision_weights = true;
  /// Ours; always on in the reference: bytes count 1.1 times for each step away from the backward.
  bool distance_weighting = true;
  /// Ours; always on in the reference: bytes count double for values that fusion would never write
  /// to memory if they were not saved.
  bool double_unmaterialized = true;
  /// Ours: where the weights above lead to more saved bytes than the default partition has, plain
  /// bytes decide.
  bool never_more_than_default = true;

  /// Base names ("aten::add") that replace the list of recomputable operators, which is: fusible and
  /// not random.
  std::optional<std::vector<std::string>> recomputable_ops;
  /// What the graph's symbols count as, by SymbolId; those without an entry as 4096.
  std::vector<int64_t> symbols;
};

/// The result has a decision for each value that the backward reads from the forward or computes
/// again. A graph without gradients gives what default_partition() gives.
Partition min_cut_partition(Graph joint, const MinCutOptions& options = {});

}  // namespace antegrad
