#include "options/reference.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace antegrad {
namespace {

using enum Counterpart;

constexpr std::string_view kNoFakeTensors =
    "stand-ins take their metadata from a shape function or the Meta kernel";
constexpr std::string_view kSaysWhy =
    "for a saved graph: the decision for each value, with its rule";

// clang-format off
constexpr ReferenceOption kReference[] = {
    {"functionalize_rng_ops", none, {}, "recomputed draws start from the saved state of their generator, so the bits are eager's"},
    {"fake_tensor_allow_meta", none, {}, kNoFakeTensors},
    {"debug_assert", other_name, "verify_graphs",
     "always on: programs check each result of a custom operator and the form of tangents, and the audit compares graphs"},
    {"debug_partitioner", other_name, "antegrad partition, antegrad explain", kSaysWhy},
    {"decompose_custom_triton_ops", none, {}, "a custom operator is one node, in whatever language its kernel is written"},
    {"static_weight_shapes", none, {}, "a program serves the sizes of one call, including those of weights"},
    {"treat_parameters_as_free_to_save", same},
    {"cse", none, {}, "always on; it changes no bits"},
    {"unsafe_treat_script_objects_as_zero_size", none, {}, "objects that are not tensors are not values of a graph"},
    {"enable_autograd_cache", same, {}, "what is kept is the plan; graphs are captured in each process"},
    {"autograd_cache_allow_custom_autograd_functions", none, {},
     "always allowed: what they compute is in the graph, which is captured in each process"},
    {"bundled_autograd_cache", none, {}, "plans and kernels are kept apart; save_bundle() writes both into one file"},
    {"bypass_autograd_cache_key", none, {}, "a key is a hash of the graph as captured; there is nothing in it that cannot be hashed"},
    {"autograd_cache_normalize_inputs", none, {}, "names of inputs are no part of keys"},
    {"check_custom_op_aliasing", same, {}, "at every call, not only the first; a program uses a copy of what it warns of"},
    {"error_on_custom_op_aliasing", same, {}, "off by default, also where the variable CI is set"},
    {"enable_remote_autograd_cache", other_name, "remote_cache", "the address of the server, instead of a switch"},
    {"view_replay_for_aliased_outputs", none, {}, "autograd makes resulting views on their bases, as in eager"},
    {"max_dist_from_bw", same},
    {"ban_recompute_used_far_apart", same},
    {"ban_recompute_long_fusible_chains", same},
    {"ban_recompute_materialized_backward", same},
    {"ban_recompute_not_in_allowlist", same},
    {"ban_recompute_reductions", same},
    {"recompute_views", same, {}, "on by default here, since what is saved owns its storage"},
    {"is_non_builtin_to_include", other_name, "recomputable_ops",
     "an unknown operator is recomputed only if it is named there"},
    {"remat_using_tags_for_fwd_loss_bwd_graph", none, {},
     "it is for a graph that holds forward, loss and backward; here a joint graph always is split, and tags act on the split"},
    {"activation_memory_budget", same, {}, "below 1, random draws may be recomputed too, with the same bits"},
    {"activation_memory_budget_runtime_estimator", same, {}, "words only, no function"},
    {"activation_memory_budget_solver", same, {}, "words only, no function; without dp_knapsack_sliding_hirschberg"},
    {"visualize_memory_budget_pareto", other_name, "antegrad partition --curve, antegrad pareto",
     "for a saved graph: ratio budgets, and budgets in bytes"},
    {"memory_budget_pareto_dir", other_name, "antegrad pareto -o FILE"},
    {"aggressive_recomputation", same},
    {"enable_activation_offloading", other_name, "memory_budget_compressors=offload_to_host",
     "a plan for a budget decides which tensors are offloaded; `compress::offload_to_host()` offloads all"},
    {"activation_offload_separate_stream", none, {}, "always on: copies to the host run on their own stream"},
    {"activation_offload_sink_wait", none, {},
     "always on: the forward waits for a copy only if 64 MiB of others are in flight"},
    {"activation_reload_prefetch", same, {}, "a number of tensors, 2 by default"},
    {"activation_offload_cpu_gpu_bw", none, {}, "plans take transfer times from what was measured (`budget_profile`)"},
    {"fake_tensor_allow_unsafe_data_ptr_access", none, {}, "data_ptr() of a stand-in is a DataDependentError"},
    {"unlift_effect_tokens", none, {}, "tokens order effects inside a graph; no program takes or returns one"},
    {"custom_op_default_layout_constraint", none, {}, "kernels see the strides that eager would show them"},
    {"fake_tensor_crossref", other_name, "cross_check_shapes=error", "for all operators, forward and backward"},
    {"fake_tensor_propagate_real_tensors", other_name, "cross_check_shapes=error",
     "PyTorch runs real data, which also answers item(), and does not compare strides. Here captures answer what a program can "
     "check; other questions are a DataDependentError"},
    {"backward_pass_autocast", none, {}, "autocast is used as it is while backward runs; each state has its own backward program"},
    {"donated_buffer", none, {}, "always on; under retain_graph another backward program keeps what it reads"},
    {"torch_compile_graph_format", other_name, "antegrad draw -o FILE", "the file extension selects the format"},
    {"generate_fake_kernels_from_real_mismatches", other_name, "cross_check_shapes=use_kernel"},
    {"fake_tensor_prefer_device_type", none, {}, kNoFakeTensors},
    {"graphsafe_rng_functionalization", none, {}, "generators are inputs of programs, also in CUDA graphs"},
    {"force_non_lazy_backward_lowering", none, {},
     "the usual backward is compiled with its forward; those for other forms of tangents when they are needed"},
    {"_test_disable_functionalization", none, {}, "captures always functionalise"},
    {"strict_autograd_cache", same, {}, "an error of its own, `CacheError`"},
    {"unsafe_allow_optimization_of_collectives", same, {}, "gathers of shards run again without it, as all ranks know"},
    {"disable_guess_zero_tangent_for_mutated_input_subclass", none, {}, "tensor subclasses are refused"},
    {"guess_tangent_strides_as_outputs", none, {}, "nothing is guessed: tangents keep their strides"},
    {"_sync_decision_cross_ranks", none, {},
     "what ranks decide alone moves no collective: gathers of shards always run again, other collectives never unless an option says so, and each call compares "
     "which ones ranks run"},
    {"saved_tensors_hooks_filtering_mode", same},
    {"joint_custom_pass", same, {}, "the name of a pass over the graph's text (passes.md), not a function over an FX graph"},
    {"force_autograd_cache", none, {}, "on wherever plans can be kept"},
    {"selective_decompose", none, {}, "operators are captured below autograd, and called, without decomposition"},
    {"enable_complex_wrapper", none, {}, "complex tensors are captured as they are"},
};
// clang-format on

}  // namespace

std::span<const ReferenceOption> reference_options() { return kReference; }

const ReferenceOption* find_reference_option(std::string_view name) {
  const auto* option =
      std::find_if(std::begin(kReference), std::end(kReference),
                   [&](const ReferenceOption& known) { return known.name == name; });
  return option == std::end(kReference) ? nullptr : option;
}

std::string explanation(const ReferenceOption& option) {
  switch (option.counterpart) {
    case same: return "";
    case other_name: return fmt::format("here it is {}", option.here);
    case none: return fmt::format("it has no meaning here: {}", option.remark);
  }
  return "";
}

}  // namespace antegrad
