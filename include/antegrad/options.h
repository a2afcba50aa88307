#pragma once

/// \file
/// Options of one compiled callable. A value. Each ag::compile call has its own; without one it
/// uses default_options() (config.h).

#include <antegrad/partition.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {

/// What a call does if its callable cannot be captured.
enum class OnRefusal : uint8_t {
  error,  ///< throws the typed error (default)
  eager,  ///< runs the callable eagerly; report() counts such calls and gives the reason
};

/// When a program is audited: the callable is captured again and the graphs are compared. A
/// difference is a HostStateError. An audit costs a capture, and the callable runs once more.
enum class Audit : uint8_t {
  off,    ///< never
  pow2,   ///< at calls 2, 4, 8, ... of each program (default)
  every,  ///< at every call that runs an existing program
};

/// Whether a capture runs the real kernel of each operator, on made-up data, and compares its
/// result with that of the shape function or Meta kernel. Costs the time of running the callable
/// operator by operator in each capture.
enum class CrossCheckShapes : uint8_t {
  off,         ///< never (default)
  error,       ///< a difference is a ShapeMismatchError
  use_kernel,  ///< a difference is logged and counted, and the kernel's result is used
};

/// Which saved tensors hooks pack (antegrad/saved_tensors.h).
enum class HookFilter : uint8_t {
  donated,  ///< those that nobody else holds: intermediates (default)
  /// arguments and results too; not parameters, buffers, and tensors that the callable holds
  no_static,
  all,  ///< all
};

/// Passes that can be left out, to find out which one makes a difference. `antegrad passes` lists
/// all passes.
enum class OptionalPass : uint8_t { no_ops, size_only_inputs, bool_masks, cse, reinplace };

/// Whether groups of operators become generated kernels (docs/lowering.md).
enum class Lowering : uint8_t {
  off,    ///< libtorch's kernels run, one for each operator
  exact,  ///< generated kernels run on the CPU where their bits are those of eager (default)
  close,  ///< generated kernels run on the CPU where they are at least as accurate as eager
};

/// What becomes of the CPU memory that the tensors of a call took, when they are freed
/// (docs/memory.md).
enum class KeptMemory : uint8_t {
  keep,  ///< the process keeps it for later calls (default)
  trim,  ///< the same within a forward or backward, which gives back what is free in the end
  free,  ///< tensors lie in memory of libtorch's allocator
};

/// Whether programs on a GPU start as one CUDA graph instead of kernel by kernel
/// (docs/gpu-graphs.md).
enum class GpuGraphs : uint8_t {
  off,  ///< each operator starts its kernels (default)
  on,   ///< a forward or backward that asks nothing on the host is recorded and replayed
};

/// A value. A compiled callable keeps a copy. Distinct objects may be used on distinct threads.
struct Options {
  /// Name in reports, logs and graph files.
  std::string name = "step";
  /// Programs kept per callable, one for each set of guards (shapes, flags, host values). If there
  /// are more, the one that was used least recently goes, unless its backward may still come. At
  /// least 1.
  int64_t max_programs = 256;
  /// The memory that these programs may take, in bytes. Above 0.
  int64_t max_program_bytes = int64_t{256} << 20;
  OnRefusal on_refusal = OnRefusal::error;
  Audit audit = Audit::pow2;
  /// How many calls also run eagerly, on copies, and are compared bit for bit: results, gradients,
  /// written tensors, generators. A difference is a MismatchError. At least 0.
  int64_t check_against_eager = 0;
  CrossCheckShapes cross_check_shapes = CrossCheckShapes::off;
  /// Whether calls of custom operators are checked for results that share memory with an argument
  /// or another result without declaring it in the schema. Programs replace such a result by a
  /// copy; each operator causes one warning.
  bool check_custom_op_aliasing = true;
  /// Whether such a result is a CaptureError instead.
  bool error_on_custom_op_aliasing = false;
  /// Decides what is saved for the backward and what is recomputed.
  Partitioner partition = Partitioner::as_written;
  MinCutOptions min_cut;  ///< for Partitioner::min_cut
  BudgetOptions budget;   ///< for Partitioner::budget
  /// Which saved tensors inlined hooks pack.
  HookFilter saved_tensors_hooks_filtering_mode = HookFilter::donated;
  /// How many offloaded tensors the backward fetches to a GPU ahead of their first use, so that
  /// copies overlap with computation; fewer where a memory budget has no room. At least 0.
  int64_t activation_reload_prefetch = 2;
  /// How many gathers of sharded parameters are started ahead of the use of their results, so that
  /// they overlap with computation, where a memory budget has room; with 1 or more, reductions also
  /// end one later. Must be the same on all ranks. At least 0.
  int64_t gather_prefetch = 1;
  /// Gathers of sharded parameters that follow each other become one, as long as their results have
  /// at most so many bytes together, where a memory budget has room. The same on all ranks. At
  /// least 0, which joins none.
  int64_t gather_bucket_bytes = 0;
  /// Whether collectives that the callable itself calls may be left out, merged and run again in
  /// the backward, like a computation; otherwise each runs once. All ranks must compile the same.
  bool unsafe_allow_optimization_of_collectives = false;
  Lowering lowering = Lowering::exact;
  /// Whether generated kernels also run where libtorch's were faster when both were compared. They
  /// may still take less memory.
  bool keep_slow_kernels = false;
  KeptMemory kept_memory = KeptMemory::keep;
  GpuGraphs gpu_graphs = GpuGraphs::off;
  /// Whether gradients of gradients may be taken through the callable (create_graph). Each call
  /// that autograd records then keeps its inputs until the backward. docs/higher-derivatives.md.
  bool higher_derivatives = false;
  /// Whether all invariants of the graph are checked after every pass. Costs compile time. On in
  /// debug builds.
  bool verify_graphs =
#ifdef NDEBUG
      false;
#else
      true;
#endif
  /// Directory for the graph after each pass, as text. Empty for none. Environment: ANTEGRAD_DUMP.
  std::string dump_dir;
  /// Directory for what is kept between processes: plans, and what is measured once per machine
  /// (BudgetProfile::calibrated). Empty: $XDG_CACHE_HOME/antegrad, or else $HOME/.cache/antegrad.
  std::string cache_dir;
  /// Whether plans are kept there, and taken from there (docs/cache.md).
  bool enable_autograd_cache = true;
  /// Whether a program whose plan cannot be kept there is a CacheError.
  bool strict_autograd_cache = false;
  /// The Redis server with which plans and kernels are shared, "redis://host:port" or, with TLS,
  /// "rediss://host:port" (docs/cache.md). Empty for none.
  std::string remote_cache;
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
  Options& with_max_program_bytes(int64_t value) {
    max_program_bytes = value;
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
  Options& with_check_custom_op_aliasing(bool value) {
    check_custom_op_aliasing = value;
    return *this;
  }
  Options& with_error_on_custom_op_aliasing(bool value) {
    error_on_custom_op_aliasing = value;
    return *this;
  }
  Options& with_partition(Partitioner value) {
    partition = value;
    return *this;
  }
  /// Also sets Partitioner::min_cut.
  Options& with_min_cut(MinCutOptions value = {}) {
    partition = Partitioner::min_cut;
    min_cut = std::move(value);
    return *this;
  }
  /// The memory budget of AOTAutograd, a ratio of what the minimum cut saves (MinCutOptions). Also
  /// sets Partitioner::min_cut.
  Options& with_activation_memory_budget(double ratio, BudgetSolver solver = BudgetSolver::dp,
                                         RuntimeEstimator estimator = RuntimeEstimator::flops) {
    partition = Partitioner::min_cut;
    min_cut.activation_memory_budget = ratio;
    min_cut.activation_memory_budget_solver = solver;
    min_cut.activation_memory_budget_runtime_estimator = estimator;
    return *this;
  }
  /// Also sets Partitioner::budget: with_memory_budget(512_MiB). Above 0.
  Options& with_memory_budget(int64_t bytes, BudgetEffort effort = BudgetEffort::quick) {
    partition = Partitioner::budget;
    budget.bytes = bytes;
    budget.effort = effort;
    budget.share.reset();
    return *this;
  }
  /// The same as a share, between the smallest peak of a known plan (0) and the peak without
  /// recomputation (1).
  Options& with_memory_share(double share, BudgetEffort effort = BudgetEffort::quick) {
    partition = Partitioner::budget;
    budget.bytes = 0;
    budget.effort = effort;
    budget.share = share;
    return *this;
  }
  /// The times by which plans for a memory budget decide (BudgetOptions::profile).
  Options& with_budget_profile(BudgetProfile value) {
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
  Options& with_activation_reload_prefetch(int64_t value) {
    activation_reload_prefetch = value;
    return *this;
  }
  Options& with_gather_prefetch(int64_t value) {
    gather_prefetch = value;
    return *this;
  }
  Options& with_gather_bucket_bytes(int64_t value) {
    gather_bucket_bytes = value;
    return *this;
  }
  Options& with_unsafe_allow_optimization_of_collectives(bool value) {
    unsafe_allow_optimization_of_collectives = value;
    return *this;
  }
  Options& with_lowering(Lowering value) {
    lowering = value;
    return *this;
  }
  Options& with_keep_slow_kernels(bool value) {
    keep_slow_kernels = value;
    return *this;
  }
  Options& with_kept_memory(KeptMemory value) {
    kept_memory = value;
    return *this;
  }
  Options& with_gpu_graphs(GpuGraphs value) {
    gpu_graphs = value;
    return *this;
  }
  Options& with_higher_derivatives(bool value) {
    higher_derivatives = value;
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
  Options& with_cache_dir(std::string value) {
    cache_dir = std::move(value);
    return *this;
  }
  Options& with_enable_autograd_cache(bool value) {
    enable_autograd_cache = value;
    return *this;
  }
  Options& with_strict_autograd_cache(bool value) {
    strict_autograd_cache = value;
    return *this;
  }
  Options& with_remote_cache(std::string value) {
    remote_cache = std::move(value);
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
