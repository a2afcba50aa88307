"""The options of antegrad.compile with their types. Written by scripts/option_types (`make docs`)."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict


class Options(TypedDict, total=False):
    name: str
    max_programs: int
    max_program_bytes: int | str
    on_refusal: Literal["error", "eager"]
    kept_memory: Literal["keep", "trim", "free"]
    gpu_graphs: Literal["off", "on"]
    higher_derivatives: bool
    audit: Literal["off", "pow2", "every"]
    check_against_eager: int
    cross_check_shapes: Literal["off", "error", "use_kernel"]
    check_custom_op_aliasing: bool
    error_on_custom_op_aliasing: bool
    verify_graphs: bool
    dump_dir: str | os.PathLike[str]
    disabled_passes: Sequence[Literal["no_ops", "size_only_inputs", "bool_masks", "cse", "reinplace"]] | None
    joint_custom_pass: str
    partition: Literal["as_written", "min_cut", "budget", "priced"]
    memory_budget: int | str | None
    memory_share: float | None
    budget_effort: Literal["quick", "thorough"]
    budget_profile: Literal["off", "calibrated", "measured"]
    cache_dir: str | os.PathLike[str]
    enable_autograd_cache: bool
    strict_autograd_cache: bool
    remote_cache: str
    memory_budget_compressors: Sequence[Literal["bf16", "fp8_e4m3", "fp8_e5m2", "int8_rowwise", "offload_to_host"]] | None
    saved_tensors_hooks_filtering_mode: Literal["donated", "no_static", "all"]
    activation_reload_prefetch: int
    gather_prefetch: int
    gather_bucket_bytes: int
    unsafe_allow_optimization_of_collectives: bool
    lowering: Literal["off", "exact", "close"]
    keep_slow_kernels: bool
    ban_recompute_used_far_apart: bool
    ban_recompute_long_fusible_chains: bool
    ban_recompute_materialized_backward: bool
    ban_recompute_not_in_allowlist: bool
    ban_recompute_reductions: bool
    ban_recompute_compute_intensive: bool
    ban_recompute_random: bool
    aggressive_recomputation: bool
    max_dist_from_bw: int
    recompute_views: bool
    treat_parameters_as_free_to_save: bool
    recompute_low_precision_weights: bool
    distance_weighting: bool
    double_unmaterialized: bool
    never_more_than_default: bool
    recomputable_ops: Sequence[str] | None
    activation_memory_budget: float
    activation_memory_budget_solver: Literal["dp", "greedy", "ilp"]
    activation_memory_budget_runtime_estimator: Literal["flops", "testing", "profile"]
