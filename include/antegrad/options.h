#pragma once

/// \file
/// Options of one compiled callable. Values: each ag::compile call has its own, and takes default_options() (config.h) where it is
/// given none.

#include <antegrad/partition.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {

/// What a call does with a callable that cannot be captured.
enum class OnRefusal : uint8_t {
  error,  ///< throw the typed error (default)
  eager,  ///< run the callable as it is; report() counts such calls and says why
};

/// When a program is checked by capturing the callable again and comparing the graphs; a difference
/// is a HostStateError. Costs the time of a capture on those calls, and the callable runs once more.
enum class Audit : uint8_t {
  off,    ///< never
  pow2,   ///< at calls 2, 4, 8, ... of each program (default)
  every,  ///< at every call that runs an existing program
};

/// Whether a capture asks the real kernel of each operator, on invented data, what it returns, and compares
/// that with the answer of the shape function or Meta kernel. Costs the time of running the callable
/// operator by operator in each capture.
enum class CrossCheckShapes : uint8_t {
  off,         ///< never (default)
  error,       ///< a difference is a ShapeMismatchError
  use_kernel,  ///< a difference is logged and counted, and the kernel's answer is taken
};

/// Which saved tensors hooks stand for (antegrad/saved_tensors.h).
enum class HookFilter : uint8_t {
  donated,    ///< those that nobody else holds: intermediates (default)
  no_static,  ///< arguments and results too; not parameters, buffers, and what the callable holds
  all,        ///< all
};

/// Passes that can be left out, to find out which one makes a difference. `antegrad passes` lists all.
enum class OptionalPass : uint8_t { no_ops, size_only_inputs, cse, reinplace };

/// A value: a compiled callable keeps the copy that it was made with. Distinct objects may be used on
/// distinct threads.
struct Options {
  /// Name in reports, logs and graph files.
  std::string name = "step";
  /// Programs kept for one callable, one a guard set (shapes, flags, host values). A call that would
  /// need one more runs eagerly, counted in the report with its reason. At least 1.
  int64_t max_programs = 8;
  OnRefusal on_refusal = OnRefusal::error;
  Audit audit = Audit::pow2;
  /// How many calls run eagerly as well, on copies, and are compared to the bit: results, gradients,
  /// written tensors, generators. A difference is a MismatchError. At least 0.
  int64_t check_against_eager = 0;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  /// Who decides what is saved for the backward and what it computes again.
  Partitioner partition = Partitioner::as_written;
  MinCutOptions min_cut;  ///< of Partitioner::min_cut
  BudgetOptions budget;   ///< of Partitioner::budget
  /// Which saved tensors inlined hooks stand for.
  HookFilter saved_tensors_hooks_filtering_mode = HookFilter::donated;
  /// Check all invariants of the graph after every pass. Costs compile time; on in debug builds.
  bool verify_graphs =
#ifdef NDEBUG
      false;
#else
      true;
#endif
  /// Folder for the graph after each pass, as text; empty for none. Environment: ANTEGRAD_DUMP.
  std::string dump_dir;
  /// Passes that do not run. Results keep their bits; programs get larger and take more memory.
  std::vector<OptionalPass> disabled_passes;
  /// Name of a pass of one's own over the joint graph (antegrad/passes.h); empty for none.
  std::string joint_custom_pass;

  // Each setter returns the options, for chaining.
  Options& with_name(std::string value) {
    name = std::move(value);
    return *this;
  }
  Options& with_max_programs(int64_t value) {
    max_programs = value;
    return *this;
  }
  Options& with_on_refusal(OnRefusal value) {
    on_refusal = value;
    return *this;
  }
  Options& with_audit(Audit value) {
    audit = value;
    return *this;
  }
  Options& with_check_against_eager(int64_t calls) {
    check_against_eager = calls;
    return *this;
  }
  Options& with_cross_check_shapes(CrossCheckShapes value) {
    cross_check_shapes = value;
    return *this;
  }
  Options& with_partition(Partitioner value) {
    partition = value;
    return *this;
  }
  /// Chooses Partitioner::min_cut as well.
  Options& with_min_cut(MinCutOptions value = {}) {
    partition = Partitioner::min_cut;
    min_cut = std::move(value);
    return *this;
  }
  /// The reference's memory budget, a ratio of what the minimum cut saves (MinCutOptions). Chooses Partitioner::min_cut as
  /// well.
  Options& with_activation_memory_budget(double ratio, BudgetSolver solver = BudgetSolver::dp,
                                         RuntimeEstimator estimator = RuntimeEstimator::flops) {
    partition = Partitioner::min_cut;
    min_cut.activation_memory_budget = ratio;
    min_cut.activation_memory_budget_solver = solver;
    min_cut.activation_memory_budget_runtime_estimator = estimator;
    return *this;
  }
  /// Chooses Partitioner::budget as well: with_memory_budget(512_MiB). Above 0.
  Options& with_memory_budget(int64_t bytes, BudgetEffort effort = BudgetEffort::quick) {
    partition = Partitioner::budget;
    budget.bytes = bytes;
    budget.effort = effort;
    budget.share.reset();
    return *this;
  }
  /// The same, between the smallest peak that a plan is known for (0) and the peak without recomputation (1).
  Options& with_memory_share(double share, BudgetEffort effort = BudgetEffort::quick) {
    partition = Partitioner::budget;
    budget.bytes = 0;
    budget.effort = effort;
    budget.share = share;
    return *this;
  }
  /// Plans for a memory budget weigh times that were measured (BudgetOptions::profile).
  Options& with_budget_profile(bool value = true) {
    budget.profile = value;
    return *this;
  }
  /// Plans for a memory budget may pack what they save (BudgetOptions::compressors).
  Options& with_budget_compressors(std::vector<Compressor> value) {
    budget.compressors = std::move(value);
    return *this;
  }
  Options& with_saved_tensors_hooks_filtering_mode(HookFilter value) {
    saved_tensors_hooks_filtering_mode = value;
    return *this;
  }
  Options& with_verify_graphs(bool value) {
    verify_graphs = value;
    return *this;
  }
  Options& with_dump_dir(std::string value) {
    dump_dir = std::move(value);
    return *this;
  }
  Options& with_disabled_passes(std::vector<OptionalPass> value) {
    disabled_passes = std::move(value);
    return *this;
  }
  Options& with_joint_custom_pass(std::string name) {
    joint_custom_pass = std::move(name);
    return *this;
  }
};

}  // namespace antegrad
