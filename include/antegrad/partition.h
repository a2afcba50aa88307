#pragma once

/// \file
/// Options of the partition: which tensors the forward saves for the backward, and which are computed again.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace antegrad {

/// Who decides. Gradients have the same bits in any case, unless BudgetOptions::compressors lose some.
enum class Partitioner : uint8_t {
  as_written,  ///< the forward as written; saves what the backward reads (default)
  min_cut,     ///< computes again what is cheap; MinCutOptions says what that is
  budget,      ///< what keeps a step within BudgetOptions::bytes and takes least time for that
};

inline namespace literals {
/// 512_MiB is 536,870,912 bytes.
constexpr int64_t operator""_KiB(unsigned long long n) { return static_cast<int64_t>(n) << 10; }
constexpr int64_t operator""_MiB(unsigned long long n) { return static_cast<int64_t>(n) << 20; }
constexpr int64_t operator""_GiB(unsigned long long n) { return static_cast<int64_t>(n) << 30; }
}  // namespace literals

/// How long a plan for a memory budget is looked for. Limits count steps of the search, never time: the same graph
/// gets the same plan on every machine.
enum class BudgetEffort : uint8_t {
  quick,     ///< about half a second for a GPT of 12 layers (default)
  thorough,  ///< some seconds: a few tenths of a percent faster, and smaller budgets
};

/// Ready-made hooks on saved tensors (antegrad/saved_tensors.h) that a plan for a memory budget may take for a tensor.
enum class Compressor : uint8_t { bf16, fp8_e4m3, fp8_e5m2, int8_rowwise, offload_to_host };

/// A limit on the memory that one forward and backward take. See docs/budget.md. A value.
struct BudgetOptions {
  /// Of the peak: the most bytes alive through the device's allocator between entry of the call and end of the
  /// backward, less those alive at entry; gradients included, as if `.grad` were undefined. A budget that no plan keeps is a
  /// BudgetError, which names the smallest that works.
  int64_t bytes = 0;
  BudgetEffort effort = BudgetEffort::quick;
  /// Instead of bytes: where between the smallest peak that a plan is known for (0) and the peak without
  /// recomputation (1).
  std::optional<double> share = {};
  /// Operators are run once and timed at compile time, for the times that plans weigh (kept for the process), instead of
  /// a roofline of the machine. Plans then differ from run to run as times do.
  bool profile = false;
  /// For each tensor a plan may save it, compute it again, or keep it packed by one of these, whichever takes least time.
  /// Gradients have the errors of those that lose bits. Empty: nothing is packed.
  std::vector<Compressor> compressors = {};
  friend bool operator==(const BudgetOptions&, const BudgetOptions&) = default;
};

/// What a checkpoint says about the results of an operator between forward and backward.
enum class Recompute : uint8_t {
  as_decided,        ///< nothing: the partitioner decides
  must_save,         ///< kept where the backward needs it
  prefer_save,       ///< the same, unless a memory budget asks for it
  prefer_recompute,  ///< computed again, unless keeping it is cheaper (Partitioner::min_cut)
  must_recompute,    ///< computed again where the backward needs it
};

/// How a memory budget that is a ratio chooses what to keep, of what takes time to compute again: the knapsack of the
/// reference's `activation_memory_budget_solver`.
enum class BudgetSolver : uint8_t {
  dp,      ///< dynamic programming over ten thousandths of the range (default)
  greedy,  ///< what saves most time a byte first, as long as it fits
  ilp,     ///< the best choice to the byte, by Cbc where antegrad was built with it
};

/// What computing an operator again counts for it.
enum class RuntimeEstimator : uint8_t {
  flops,    ///< floating-point operations, at least 1 (default)
  testing,  ///< 1 for each
  profile,  ///< seconds: each kind of call is run and timed once in a process
};

/// Rules of the minimum-cut partition. Names and defaults are those of the reference's configuration
/// (torch/_functorch/config.py); options with another comment are ours. See docs/partition.md. A value.
struct MinCutOptions {
  /// Bans: what is banned is not computed again, so it is saved if the backward reads it.
  bool ban_recompute_used_far_apart = true;
  bool ban_recompute_long_fusible_chains = true;
  bool ban_recompute_materialized_backward = true;
  bool ban_recompute_not_in_allowlist = true;
  bool ban_recompute_reductions = true;
  /// Ours; the reference has no switch for these two. A random operator that runs again draws the same
  /// bits: what is saved is the state that its generator had.
  bool ban_recompute_compute_intensive = true;
  bool ban_recompute_random = true;
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

  /// How much of what the rules above save may stay saved, from 0 (nothing but inputs) to 1 (all; default). Bytes of
  /// saved tensors, not of a peak, and a wish: docs/partition.md. For a limit that holds see BudgetOptions.
  double activation_memory_budget = 1;
  BudgetSolver activation_memory_budget_solver = BudgetSolver::dp;
  RuntimeEstimator activation_memory_budget_runtime_estimator = RuntimeEstimator::flops;
};

}  // namespace antegrad
