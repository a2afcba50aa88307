#include "options/table.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <antegrad/error.h>

#include "options/nearest.h"
#include "options/reference.h"
#include "options/remote_address.h"

namespace antegrad {
namespace {

constexpr uint8_t operator|(Stage a, Stage b) {
  return static_cast<uint8_t>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
constexpr uint8_t only(Stage stage) { return static_cast<uint8_t>(stage); }
constexpr uint8_t kCapture = only(Stage::capture);
constexpr uint8_t kPartition = only(Stage::partition);
constexpr uint8_t kLowering = only(Stage::lowering);
constexpr uint8_t kRuntime = only(Stage::runtime);
constexpr bool kInKey = true;
constexpr bool kNotInKey = false;

constexpr Member from(int64_t least, Member member) {
  member.domain.least = least;
  return member;
}

constexpr Member as(OptionKind kind, Member member) {
  member.domain.kind = kind;
  return member;
}

// Options that also select the partition, like their setters.

constexpr Member choosing(Member member, void (*set)(Options& options, const OptionValue& value)) {
  member.set = set;
  return member;
}

OptionValue memory_budget(const Options& options) {
  if (options.budget.share || options.budget.bytes == 0) return {};
  return options.budget.bytes;
}

void set_memory_budget(Options& options, const OptionValue& value) {
  const auto* bytes = std::get_if<int64_t>(&value);
  if (bytes == nullptr) {
    options.budget.bytes = 0;
  } else {
    options.with_memory_budget(*bytes, options.budget.effort);
  }
}

void set_memory_share(Options& options, const OptionValue& value) {
  const auto* share = std::get_if<double>(&value);
  if (share == nullptr) {
    options.budget.share.reset();
  } else {
    options.with_memory_share(*share, options.budget.effort);
  }
}

void set_activation_memory_budget(Options& options, const OptionValue& value) {
  options.with_activation_memory_budget(std::get<double>(value),
                                        options.min_cut.activation_memory_budget_solver,
                                        options.min_cut.activation_memory_budget_runtime_estimator);
}

template <auto Rule>
constexpr Member rule() {
  return member<&Options::min_cut, Rule>();
}

// clang-format off
constexpr OptionRow kRows[] = {
    // ---- calls
    {"name", OptionGroup::calls, member<&Options::name>(), kRuntime, kNotInKey,
     "name in reports, logs, errors, graph files and profiler ranges; in Python the function's name by default"},
    {"max_programs", OptionGroup::calls, from(1, member<&Options::max_programs>()), kRuntime, kNotInKey,
     "programs kept per callable; beyond that the one used least recently goes, unless its backward may still come"},
    {"max_program_bytes", OptionGroup::calls, as(OptionKind::bytes, from(1, member<&Options::max_program_bytes>())), kRuntime, kNotInKey,
     "memory that the programs of a callable may take; beyond that the one used least recently goes"},
    {"on_refusal", OptionGroup::calls, member<&Options::on_refusal>(), kCapture, kNotInKey,
     "what a call does if its callable cannot be captured: throw a typed error, or run eagerly, counted with the reason",
     "capture.md"},

    {"kept_memory", OptionGroup::calls, member<&Options::kept_memory>(), kRuntime, kNotInKey,
     "what becomes of the CPU memory of a call's tensors when they are freed: the process keeps it for later calls; gives it back at the end "
     "of each forward and backward; or it is that of libtorch's allocator", "memory.md"},
    {"gpu_graphs", OptionGroup::calls, member<&Options::gpu_graphs>(), kRuntime, kNotInKey,
     "whether a forward or backward on a GPU that asks nothing on the host is recorded as a CUDA graph and starts as a whole. The graph keeps "
     "the memory of what it computes", "gpu-graphs.md"},
    {"higher_derivatives", OptionGroup::calls, member<&Options::higher_derivatives>(), kRuntime, kNotInKey,
     "whether gradients of gradients may be taken through the callable (`create_graph`). Each call that autograd records then keeps its inputs "
     "until the backward", "higher-derivatives.md"},

    // ---- checks
    {"audit", OptionGroup::checks, member<&Options::audit>(), kRuntime, kNotInKey,
     "which calls of a program capture the callable again and compare: none; calls 2, 4, 8, ...; or all. A difference is a "
     "`HostStateError`", "audit.md"},
    {"check_against_eager", OptionGroup::checks, member<&Options::check_against_eager>(), kRuntime, kNotInKey,
     "how many calls also run eagerly, on copies, and are compared bit for bit; a difference is a `MismatchError`",
     "audit.md"},
    {"cross_check_shapes", OptionGroup::checks, member<&Options::cross_check_shapes>(), kCapture, kInKey,
     "whether captures compare the results of shape functions and Meta kernels with those of real kernels",
     "options.md#cross_check_shapes"},
    {"check_custom_op_aliasing", OptionGroup::checks, member<&Options::check_custom_op_aliasing>(), kRuntime, kNotInKey,
     "whether calls of custom operators are checked for results that share memory with an argument or another result without "
     "declaring it. Programs use a copy of such a result; the first one of each operator is a warning", "custom-code.md#operators"},
    {"error_on_custom_op_aliasing", OptionGroup::checks, member<&Options::error_on_custom_op_aliasing>(), kRuntime, kNotInKey,
     "whether that is a `CaptureError` instead", "custom-code.md#operators"},
    {"verify_graphs", OptionGroup::checks, member<&Options::verify_graphs>(), Stage::capture | Stage::partition, kNotInKey,
     "whether all invariants of the graph are checked after each pass", {}, "false; true in debug builds"},
    {"dump_dir", OptionGroup::checks, as(OptionKind::path, member<&Options::dump_dir>()), Stage::capture | Stage::partition,
     kNotInKey,
     "directory for the graph after each pass, as text, and the options. A later program of the process has a folder `program-2`, … in it",
     "graph-format.md"},
    {"disabled_passes", OptionGroup::checks, member<&Options::disabled_passes>(), kCapture | kPartition, kInKey,
     "passes to skip, to find the one that makes a difference; `antegrad passes` lists all", "passes.md"},
    {"joint_custom_pass", OptionGroup::checks, member<&Options::joint_custom_pass>(), kCapture, kInKey,
     "name of your own pass over the joint graph, as given to `register_joint_pass`; empty for none", "passes.md"},

    // ---- partition
    {"partition", OptionGroup::partition, member<&Options::partition>(), kPartition, kInKey,
     "the partitioner, which decides what is saved for the backward and what is recomputed", "partition.md"},
    {"memory_budget", OptionGroup::partition,
     {{.kind = OptionKind::bytes, .may_be_unset = true}, memory_budget, set_memory_budget}, kPartition, kInKey,
     "limit on the memory of one forward and backward; if no plan meets it, a `BudgetError` names the smallest that works. "
     "Sets `partition=budget`", "budget.md"},
    {"memory_share", OptionGroup::partition, choosing(member<&Options::budget, &BudgetOptions::share>(), set_memory_share),
     kPartition, kInKey,
     "the same as a share, between the smallest peak of a known plan (0) and the peak without recomputation (1)",
     "budget.md"},
    {"budget_effort", OptionGroup::partition, member<&Options::budget, &BudgetOptions::effort>(), kPartition, kInKey,
     "how long the planner searches for a plan for a memory budget, in steps of the search", "budget.md"},
    {"budget_profile", OptionGroup::partition, member<&Options::budget, &BudgetOptions::profile>(), kPartition, kInKey,
     "where plans for `memory_budget` and `memory_share` get times from: a built-in roofline; curves that are measured once per "
     "machine and kept in `cache_dir`; or a run of each kind of operator call, once per process, with which plans vary",
     "budget.md#times"},
    {"cache_dir", OptionGroup::partition, as(OptionKind::path, member<&Options::cache_dir>()), kPartition, kNotInKey,
     "directory for what is kept between processes: plans, and what is measured once per machine; if empty, "
     "`$XDG_CACHE_HOME/antegrad` or `~/.cache/antegrad`",
     "cache.md"},
    {"enable_autograd_cache", OptionGroup::partition, member<&Options::enable_autograd_cache>(), kPartition, kNotInKey,
     "whether plans are kept on disk, and taken from there by later processes", "cache.md"},
    {"strict_autograd_cache", OptionGroup::partition, member<&Options::strict_autograd_cache>(), kPartition, kNotInKey,
     "whether a program whose plan cannot be kept on disk is a `CacheError`", "cache.md#what-is-not-kept"},
    {"remote_cache", OptionGroup::partition, member<&Options::remote_cache>(), kPartition, kNotInKey,
     "the Redis server with which plans and kernels are shared, `redis://host:port` or, with TLS, `rediss://host:port`; empty for none",
     "remote-cache.md"},
    {"memory_budget_compressors", OptionGroup::partition, member<&Options::budget, &BudgetOptions::compressors>(), kPartition,
     kInKey,
     "compressors with which plans for `memory_budget` and `memory_share` may pack saved tensors, if that takes less time than "
     "recomputation. Gradients have the errors of compressors that lose bits", "budget.md#compressors"},
    {"saved_tensors_hooks_filtering_mode", OptionGroup::partition, member<&Options::saved_tensors_hooks_filtering_mode>(),
     kPartition, kInKey, "which saved tensors inlined hooks pack", "saved-tensor-hooks.md"},
    {"activation_reload_prefetch", OptionGroup::partition, member<&Options::activation_reload_prefetch>(), kPartition, kInKey,
     "how many tensors that `offload_to_host` moved the backward fetches to a GPU ahead of their first use; fewer where a memory "
     "budget has no room", "saved-tensor-hooks.md#out-of-memory-and-back"},
    {"gather_prefetch", OptionGroup::partition, member<&Options::gather_prefetch>(), kPartition, kInKey,
     "how many gathers of sharded parameters are started ahead of the use of their results, so that they overlap with computation, where a "
     "memory budget has room; with 1 or more, reductions also end one later. The same on all ranks", "distributed.md#overlap"},
    {"gather_bucket_bytes", OptionGroup::partition, member<&Options::gather_bucket_bytes>(), kPartition, kInKey,
     "gathers of sharded parameters that follow each other become one, as long as their results have at most so many bytes together, where a "
     "memory budget has room; 0 joins none. The same on all ranks", "distributed.md#small-units"},
    {"unsafe_allow_optimization_of_collectives", OptionGroup::partition, member<&Options::unsafe_allow_optimization_of_collectives>(),
     kPartition, kInKey,
     "collectives that the callable itself calls may be left out, merged and run again in the backward, like a computation; otherwise each "
     "runs once. All ranks must then compile the same", "distributed.md#collectives-of-your-own"},

    // ---- lowering
    {"lowering", OptionGroup::lowering, member<&Options::lowering>(), kLowering, kInKey,
     "whether groups of operators become generated kernels: never, where their bits are eager's (on the CPU), or where they are as accurate", "lowering.md"},
    {"keep_slow_kernels", OptionGroup::lowering, member<&Options::keep_slow_kernels>(), kLowering, kInKey,
     "generated kernels run also for small nodes, and where libtorch's were faster when both were compared on this machine", "lowering.md#proof"},

    // ---- rules of partition=min_cut
    {"ban_recompute_used_far_apart", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_used_far_apart>(), kPartition,
     kInKey, "a node that fuses with its operand is not recomputed if it comes long after another reader of the operand"},
    {"ban_recompute_long_fusible_chains", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_long_fusible_chains>(),
     kPartition, kInKey, "the end of a long chain of fusible nodes is not recomputed"},
    {"ban_recompute_materialized_backward", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_materialized_backward>(),
     kPartition, kInKey, "a value that the backward would have to write to memory is not recomputed"},
    {"ban_recompute_not_in_allowlist", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_not_in_allowlist>(),
     kPartition, kInKey, "a node that is not fusible, or not in `recomputable_ops`, is not recomputed"},
    {"ban_recompute_reductions", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_reductions>(), kPartition, kInKey,
     "a node whose result is less than a quarter of its operands is not recomputed"},
    {"ban_recompute_compute_intensive", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_compute_intensive>(),
     kPartition, kInKey, "matrix products, convolutions, attention and similar nodes are not recomputed"},
    {"ban_recompute_random", OptionGroup::min_cut, rule<&MinCutOptions::ban_recompute_random>(), kPartition, kInKey,
     "random draws are not recomputed; if off, recomputed draws give the same bits"},
    {"aggressive_recomputation", OptionGroup::min_cut, rule<&MinCutOptions::aggressive_recomputation>(), kPartition, kInKey,
     "turns off the bans used_far_apart, long_fusible_chains, materialized_backward and not_in_allowlist"},
    {"max_dist_from_bw", OptionGroup::min_cut, rule<&MinCutOptions::max_dist_from_bw>(), kPartition, kInKey,
     "a node that is more steps than this from the backward is not recomputed"},
    {"recompute_views", OptionGroup::min_cut, rule<&MinCutOptions::recompute_views>(), kPartition, kInKey,
     "views are free to recompute; if off, they have the weight of copies. The base is saved in either case"},
    {"treat_parameters_as_free_to_save", OptionGroup::min_cut, rule<&MinCutOptions::treat_parameters_as_free_to_save>(),
     kPartition, kInKey, "parameters, buffers and constants are free to save"},
    {"recompute_low_precision_weights", OptionGroup::min_cut, rule<&MinCutOptions::recompute_low_precision_weights>(),
     kPartition, kInKey, "casts of parameters, buffers and constants to fewer bytes are recomputed, never saved"},
    {"distance_weighting", OptionGroup::min_cut, rule<&MinCutOptions::distance_weighting>(), kPartition, kInKey,
     "the weight of a byte grows by a factor of 1.1 per step from the backward"},
    {"double_unmaterialized", OptionGroup::min_cut, rule<&MinCutOptions::double_unmaterialized>(), kPartition, kInKey,
     "bytes count double for values that fusion would not write to memory otherwise"},
    {"never_more_than_default", OptionGroup::min_cut, rule<&MinCutOptions::never_more_than_default>(), kPartition, kInKey,
     "if the weights lead to more saved bytes than `as_written`, plain bytes decide"},
    {"recomputable_ops", OptionGroup::min_cut, rule<&MinCutOptions::recomputable_ops>(), kPartition, kInKey,
     "base names of operators that replace the default list of recomputable ones: fusible and not random"},
    {"activation_memory_budget", OptionGroup::min_cut,
     choosing(rule<&MinCutOptions::activation_memory_budget>(), set_activation_memory_budget), kPartition, kInKey,
     "how much of what the rules save may stay saved, from 0 (inputs only) to 1. It concerns saved bytes, not the peak, and is a "
     "target, not a limit. Sets `partition=min_cut`", "partition.md#a-memory-budget-from-0-to-1"},
    {"activation_memory_budget_solver", OptionGroup::min_cut, rule<&MinCutOptions::activation_memory_budget_solver>(),
     kPartition, kInKey, "the knapsack solver that decides what stays saved", "partition.md#a-memory-budget-from-0-to-1"},
    {"activation_memory_budget_runtime_estimator", OptionGroup::min_cut,
     rule<&MinCutOptions::activation_memory_budget_runtime_estimator>(), kPartition, kInKey,
     "the cost of recomputing a node in that knapsack", "partition.md#a-memory-budget-from-0-to-1"},
};
// clang-format on

[[noreturn]] void refuse_name(std::string_view name) {
  std::string remedy;
  if (const ReferenceOption* reference = find_reference_option(name)) {
    remedy = explanation(*reference);
  } else {
    std::vector<std::string_view> names;
    for (const OptionRow& row : kRows) names.push_back(row.name);
    const std::vector<std::string_view> nearest = nearest_names(name, names);
    remedy = nearest.empty() ? "antegrad options lists them"
                             : fmt::format("did you mean {}?", fmt::join(nearest, " or "));
  }
  throw OptionError(ErrorText{"an option of antegrad", fmt::format("\"{}\"", name), remedy});
}

/// "the text", 7
std::string found_text(const OptionValue& value) {
  const bool quoted = std::holds_alternative<std::string>(value);
  return fmt::format("{0}{1}{0}", quoted ? "\"" : "", text_of(value));
}

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

const OptionRow* find_option(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const OptionRow& known) { return known.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

const OptionRow& option_named(std::string_view name) {
  if (const OptionRow* row = find_option(name)) return *row;
  refuse_name(name);
}

std::string environment_variable(const OptionRow& row) {
  if (row.name == "name") return "";  // a common name for all callables would be useless
  if (row.name == "dump_dir") return "ANTEGRAD_DUMP";
  std::string variable = fmt::format("ANTEGRAD_{}", row.name);
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return variable;
}

std::string type_text(const OptionRow& row) {
  const std::string text = type_text(row.member.domain);
  return row.member.domain.may_be_unset ? text + " or none" : text;
}

std::string default_text(const OptionRow& row) {
  return row.usually.empty() ? text_of(row.member.get(Options())) : std::string(row.usually);
}

std::string stages_text(const OptionRow& row) {
  constexpr std::string_view kNames[] = {"capture", "partition", "lowering", "runtime"};
  std::vector<std::string_view> names;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if ((row.stages >> i & 1) != 0) names.push_back(kNames[i]);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void refuse_value(const OptionRow& row, const std::string& found) {
  throw OptionError(ErrorText{
      fmt::format("{} for the option {}", expected_text(row.member.domain), row.name), found, ""});
}

void set(const OptionRow& row, Options& options, const OptionValue& value) {
  const auto admissible = admitted(row.member.domain, value);
  if (!admissible) refuse_value(row, found_text(value));
  row.member.set(options, *admissible);
}

void check_options(const Options& options) {
  for (const OptionRow& row : kRows) {
    const OptionValue value = row.member.get(options);
    if (!admitted(row.member.domain, value)) refuse_value(row, found_text(value));
  }
  if (!options.remote_cache.empty()) remote_address(options.remote_cache);
}

}  // namespace antegrad
