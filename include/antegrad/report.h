#pragma once

/// \file
/// What a compiled callable did, and what was decided for it.

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace antegrad {

/// How the results of one operator were described, by number of calls, and what a cross-check
/// found (Options::cross_check_shapes). A value.
struct ShapeCheck {
  int64_t shape_functions = 0;  ///< calls described by a shape function
  int64_t meta_kernels = 0;     ///< calls described by a Meta kernel
  int64_t real_kernels = 0;     ///< calls described by the real kernel: nothing to compare
  int64_t checked = 0;          ///< calls compared with the real kernel
  int64_t skipped = 0;          ///< calls whose kernel must not run, or fails, on made-up data
  int64_t mismatches = 0;       ///< calls whose kernel returns something else
  std::string mismatch;         ///< the first mismatch, as text
};

/// A stage of a compilation, or a pass within one. A value.
struct CompileStage {
  std::string name;
  double start_ms = 0;  ///< since the capture began
  double milliseconds = 0;
  int64_t nodes_before = 0;  ///< of a pass, in all its graphs
  int64_t nodes_after = 0;
};

/// A generated kernel of a program (Options::lowering).
struct KernelReport {
  std::string name;                         ///< of its function, as debuggers and profilers show it
  std::string phase;                        ///< "forward" or "backward"
  std::vector<std::string> operators = {};  ///< that it computes, without views
  int64_t bytes = 0;                        ///< of the tensors that it reads and writes
  /// Of one run when it proved itself on this machine, and of the library's kernels in its place.
  double microseconds = 0;
  double library_microseconds = 0;
};

/// A product of matrices, or attention, that libtorch's call does not compute (Lowering::close).
struct ProductReport {
  std::string product;  ///< such as "2048x384 384x1536": the sizes of operands
  std::string phase;    ///< "forward" or "backward"
  std::string library;  ///< that does: "oneDNN", or "antegrad" for kernels of its own
  /// Of one run when both were measured on this machine, and of libtorch's call.
  double microseconds = 0;
  double library_microseconds = 0;
};

/// What became of the CUDA graphs of a forward, or of its backwards (Options::gpu_graphs).
struct GpuGraphReport {
  std::string phase;         ///< "forward" or "backward"
  std::string refused = {};  ///< why none is recorded any more; empty if they may be
  int64_t recorded = 0;      ///< graphs so far
  int64_t replays = 0;       ///< calls that a graph served
  int64_t bytes = 0;         ///< of the GPU's memory that living graphs keep
  /// Calls so far that ran node by node, by reason.
  std::map<std::string, int64_t> node_by_node = {};
};

/// One captured and compiled program. A value; distinct objects may be used on distinct threads.
struct ProgramReport {
  std::string name;
  std::string graph_hash;  ///< of the captured graph: equal in every run, process and thread
  /// 0: the callable with its gradients. k > 0: a program that create_graph asked for, of the
  /// callable, its gradients up to order k, and their gradients (Options::higher_derivatives).
  int64_t derivative = 0;
  int64_t joint_nodes = 0;  ///< after simplification
  int64_t forward_nodes = 0;
  int64_t backward_nodes = 0;
  int64_t lifted_tensors = 0;  ///< parameters, buffers, constants found in the callable
  /// Operators of the forward that run again in the backward, with the number of nodes. Views are
  /// included.
  std::map<std::string, int64_t> recomputed;
  int64_t saved_tensors = 0;  ///< intermediates saved for the backward
  int64_t saved_bytes = 0;    ///< their bytes, without parameters and arguments
  /// Saved tensors that nobody else holds, so that the backward frees or reuses their memory as
  /// soon as it has read them. Value, operator and type, such as "%3 of aten::exp.default: f32[8,
  /// 4]".
  std::vector<std::string> donated;
  /// Inlined hooks (antegrad/saved_tensors.h): their name, the saved tensors that they pack with
  /// what is saved instead, and the other saved tensors with the reason.
  std::string hooks;
  std::vector<std::string> hooked;
  std::vector<std::string> not_hooked;
  /// What a cache shared between processes must know besides the graph: the hashes of code that
  /// graphs only name (hooks, ag::opaque), with what each stands for; and the reasons why the
  /// program cannot be cached, empty if there are none.
  std::vector<std::string> cache_hashes;
  std::vector<std::string> cache_bypass;
  /// What became of the plan in the cache on disk (docs/cache.md): "hit", "miss", "bypass" or
  /// "off"; and where it came from, or why not.
  std::string plan_cache;
  std::string plan_cache_reason;
  /// Partitioner::budget: the budget; the peak if all that the backward reads is saved; the
  /// smallest peak of a known plan; and the time of recomputation as a share of the step, by the
  /// model of the search (docs/budget.md). 0 otherwise.
  int64_t memory_budget_bytes = 0;
  int64_t eager_peak_bytes = 0;
  int64_t smallest_budget_bytes = 0;
  double recompute_share = 0;
  double planning_ms = 0;            ///< part of compile_ms
  bool plan_carried_over = false;    ///< the plan was made for other sizes, and suits these
  int64_t predicted_peak_bytes = 0;  ///< of one forward and backward, see docs/architecture.md
  /// Predicted live bytes while each operator runs, first those of the forward; and the stretches
  /// (end exclusive) in which the backward recomputes. antegrad/charts.h draws them.
  std::vector<int64_t> live_bytes;
  std::vector<std::pair<int64_t, int64_t>> recomputed_at;
  /// Options::lowering: generated kernels that a forward and the usual backward call; nodes that
  /// stayed calls of libtorch's kernels although a group had them, as "aten::x: reason", with their
  /// number; and why there are no kernels although there could be.
  std::vector<KernelReport> generated_kernels;
  std::vector<ProductReport> other_products;
  std::map<std::string, int64_t> not_generated;
  std::string lowering_failure;
  /// Calls of generated kernels so far in which the library's kernels ran one by one instead, by
  /// reason: an input in other memory, another number of threads, an index out of bounds.
  std::map<std::string, int64_t> node_runs;
  std::vector<GpuGraphReport> gpu_graphs;  ///< empty with Options::gpu_graphs off
  double capture_ms = 0;                   ///< running the callable on stand-ins
  double compile_ms = 0;                   ///< all later stages: passes, partition, programs
  /// Where that time went: stages in order, from the capture on, then the passes within them.
  std::vector<CompileStage> stages;
  int64_t shape_functions = 0;  ///< operators whose outputs a shape function described
  int64_t meta_kernels = 0;     ///< operators described by a Meta kernel
  int64_t real_kernels = 0;     ///< operators described by the real kernel, run on zeros
  /// Operators that no shape function described, with the number of calls.
  std::map<std::string, int64_t> without_shape_function;
  /// By operator. Empty if Options::cross_check_shapes is off.
  std::map<std::string, ShapeCheck> shape_checks;
};

/// A consistent snapshot. A value; distinct objects may be used on distinct threads.
struct Report {
  std::string name;
  int64_t compiled_calls = 0;
  int64_t eager_calls = 0;  ///< calls that ran the callable eagerly
  std::map<std::string, int64_t> eager_reasons;
  int64_t audits = 0;  ///< calls that captured the callable again and compared the graphs
  int64_t checked_calls =
      0;  ///< calls that were compared with eager (Options::check_against_eager)
  /// Why programs were made after the first: which guard failed, and the two values. The last 256.
  std::vector<std::string> recompiles;
  /// Programs that were given up for others (Options::max_programs, Options::max_program_bytes).
  int64_t evictions = 0;
  std::vector<ProgramReport> programs;  ///< oldest first
};

/// Text for people, in lines.
std::ostream& operator<<(std::ostream& out, const Report& report);
/// The generated kernels of a program as a table for people: times of a run when they proved
/// themselves, beside the library's, and what they compute; those that save most time first. Equal
/// ones are one line, with the number of their runs in a step.
std::string kernel_table(const ProgramReport& program);
std::ostream& operator<<(std::ostream& out, const ProgramReport& program);
/// In one line, which has no end.
std::ostream& operator<<(std::ostream& out, const ShapeCheck& check);

}  // namespace antegrad
