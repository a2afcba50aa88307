#pragma once

/// \file
/// Options of the partition: which tensors the forward saves for the backward, and which are
/// recomputed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// The partitioner. Gradients have the same bits with each, unless BudgetOptions::compressors lose
/// some.
enum class Partitioner : uint8_t {
  as_written,  ///< runs the forward as written and saves what the backward reads (default)
  min_cut,     ///< recomputes what is cheap, by the rules in MinCutOptions
  budget,      ///< keeps a step within BudgetOptions::bytes, in the least time
  /// With generated kernels: saves a value unless computing it again takes less time than its
  /// memory costs. Without them, and in scopes of hooks: as_written.
  priced,
};

inline namespace literals {
/// 512_MiB is 536,870,912 bytes.
constexpr int64_t operator""_KiB(unsigned long long n) { return static_cast<int64_t>(n) << 10; }
constexpr int64_t operator""_MiB(unsigned long long n) { return static_cast<int64_t>(n) << 20; }
constexpr int64_t operator""_GiB(unsigned long long n) { return static_cast<int64_t>(n) << 30; }
}  // namespace literals

/// How long the planner searches for a plan for a memory budget. Limits count steps of the search,
/// not time, so the same graph gets the same plan on every machine.
enum class BudgetEffort : uint8_t {
  quick,     ///< about half a second for a GPT of 12 layers (default)
  thorough,  ///< some seconds: a few tenths of a percent faster, and smaller budgets
};

/// Ready-made hooks on saved tensors (antegrad/saved_tensors.h) that a plan for a memory budget
/// may use for a tensor.
enum class Compressor : uint8_t { bf16, fp8_e4m3, fp8_e5m2, int8_rowwise, offload_to_host };

/// Where plans for a memory budget get the times of operations from. See docs/budget.md#times.
enum class BudgetProfile : uint8_t {
  off,         ///< a built-in roofline: plans are the same everywhere
  calibrated,  ///< curves measured once per machine and kept in a file (default)
  measured,    ///< each kind of operator call is run and timed once per process
};

/// A limit on the memory of one forward and backward. See docs/budget.md. A value.
struct BudgetOptions {
  /// Limit on the peak: the largest number of bytes alive in the device's allocator between entry
  /// of the call and end of the backward, minus those alive at entry. Gradients count as if
  /// `.grad` were undefined. If no plan meets the budget, a BudgetError names the smallest that
  /// works.
  int64_t bytes = 0;
  BudgetEffort effort = BudgetEffort::quick;
  /// Instead of bytes: a position between the smallest peak of a known plan (0) and the peak
  /// without recomputation (1).
  std::optional<double> share = {};
  /// With `measured`, plans vary from run to run as times do.
  BudgetProfile profile = BudgetProfile::calibrated;
  /// For each tensor a plan may save it, recompute it, or keep it packed by one of these,
  /// whichever takes least time. Gradients have the errors of compressors that lose bits. If
  /// empty, nothing is packed.
  std::vector<Compressor> compressors = {};
  friend bool operator==(const BudgetOptions&, const BudgetOptions&) = default;
};

/// The knapsack solver of a ratio budget, which chooses what to save among values that are
/// expensive to recompute. As AOTAutograd's `activation_memory_budget_solver`.
enum class BudgetSolver : uint8_t {
  dp,      ///< dynamic programming over ten thousandths of the range (default)
  greedy,  ///< the most time saved per byte first, as long as it fits
  ilp,     ///< the optimum, exact to the byte, by Cbc if antegrad was built with it
};

/// The cost of recomputing an operator, for that solver.
enum class RuntimeEstimator : uint8_t {
  flops,    ///< floating-point operations, at least 1 (default)
  testing,  ///< 1 for each
  profile,  ///< seconds: each kind of call is run and timed once per process
};

/// Rules of the minimum-cut partition. Names and defaults are those of AOTAutograd's configuration
/// (torch/_functorch/config.py), except where a comment says "antegrad only". See
/// docs/partition.md. A value.
struct MinCutOptions {
  /// Bans. A banned node is not recomputed, so its result is saved if the backward reads it.
  bool ban_recompute_used_far_apart = true;
  bool ban_recompute_long_fusible_chains = true;
  bool ban_recompute_materialized_backward = true;
  bool ban_recompute_not_in_allowlist = true;
  bool ban_recompute_reductions = true;
  /// antegrad only: AOTAutograd has no switch for these two. A recomputed random operator draws
  /// the same bits, since the state of its generator is saved.
  bool ban_recompute_compute_intensive = true;
  bool ban_recompute_random = true;
  /// Turns off the bans that trade time for memory: used_far_apart, long_fusible_chains,
  /// materialized_backward and not_in_allowlist.
  bool aggressive_recomputation = false;
  /// In steps from the first node that runs in the backward. Nodes further away are banned.
  int32_t max_dist_from_bw = 1000;

  /// Views themselves are never saved, since a saved value owns its storage. If this is off, they
  /// have the weight of copies, as in AOTAutograd, and their bases are saved instead. (Off in
  /// AOTAutograd.)
  bool recompute_views = true;
  /// Parameters, buffers and constants are free to save.
  bool treat_parameters_as_free_to_save = true;
  /// antegrad only: casts of such a tensor to fewer bytes are recomputed from it, never saved.
  bool recompute_low_precision_weights = true;
  /// antegrad only (always on in AOTAutograd): the weight of a byte grows by a factor of 1.1 per
  /// step from the backward.
  bool distance_weighting = true;
  /// antegrad only (always on in AOTAutograd): bytes count double for values that fusion would not
  /// write to memory unless they were saved.
  bool double_unmaterialized = true;
  /// antegrad only: if the weights above lead to more saved bytes than the default partition has,
  /// plain bytes decide.
  bool never_more_than_default = true;

  /// Base names ("aten::add") that replace the default list of recomputable operators: fusible and
  /// not random.
  std::optional<std::vector<std::string>> recomputable_ops;

  /// How much of what the rules above save may stay saved, from 0 (only inputs) to 1 (all;
  /// default). It concerns bytes of saved tensors, not the peak, and is a target, not a limit:
  /// docs/partition.md. BudgetOptions has a limit.
  double activation_memory_budget = 1;
  BudgetSolver activation_memory_budget_solver = BudgetSolver::dp;
  RuntimeEstimator activation_memory_budget_runtime_estimator = RuntimeEstimator::flops;
};

}  // namespace antegrad
