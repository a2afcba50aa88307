"""Runs PyTorch's AOTAutograd: the joint graph of a model, and the values that its partitioners save."""

import contextlib
import copy
import dataclasses
import warnings

import torch
import torch._functorch.config
from agraph import Unsupported
from torch._functorch import partitioners
from torch._functorch._aot_autograd import descriptors
from torch._functorch.aot_autograd import aot_compile_joint_with_descriptors, aot_export_joint_with_descriptors


@dataclasses.dataclass(frozen=True)
class Partitioner:
    name: str  # of a function in torch._functorch.partitioners
    options: dict  # of torch._functorch.config

    def saved(self, joint, inputs, **keywords):
        """Names of the nodes whose values the forward saves for the backward."""
        with torch._functorch.config.patch(self.options):
            forward, _ = getattr(partitioners, self.name)(copy_of(joint), inputs, **keywords)
        return [node.name for node in forward.graph.output_node().args[0][keywords["num_fwd_outputs"]:]]


def min_cut(**options):
    return Partitioner("min_cut_rematerialization_partition", options)


DEFAULTS = (Partitioner("default_partition", {}), min_cut())
# The minimum cut with rules switched off and on.
VARIANTS = (
    min_cut(aggressive_recomputation=True),
    min_cut(ban_recompute_used_far_apart=False),
    min_cut(ban_recompute_long_fusible_chains=False),
    min_cut(ban_recompute_materialized_backward=False),
    min_cut(ban_recompute_not_in_allowlist=False),
    min_cut(ban_recompute_reductions=False),
    min_cut(ban_recompute_used_far_apart=False, ban_recompute_long_fusible_chains=False,
            ban_recompute_materialized_backward=False, ban_recompute_reductions=False),
    min_cut(recompute_views=True),
    min_cut(treat_parameters_as_free_to_save=False),
    min_cut(max_dist_from_bw=2),
    *(min_cut(activation_memory_budget=budget) for budget in (0.0, 0.1, 0.25, 0.5, 0.75)),
    min_cut(activation_memory_budget=0.25, activation_memory_budget_solver="greedy"),
    min_cut(activation_memory_budget=0.25, activation_memory_budget_runtime_estimator="testing"),
)


def copy_of(module):
    """Runs a partitioner on a copy of the graph, since it changes the graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PyTorch's own classes
        return torch.fx.GraphModule(module, copy.deepcopy(module.graph))


def with_budget(budget):
    return min_cut(activation_memory_budget=budget)


@dataclasses.dataclass
class Joint:
    module: torch.fx.GraphModule
    tensors: dict  # by descriptor of a primal: the tensor itself
    saved: list  # (Partitioner, names of the nodes)


def capture(model, args, asked=DEFAULTS):
    """The joint graph of `model(*args)` as the partitioners see it. Its placeholders and its output node carry
    descriptors in `meta["desc"]`."""
    found = []

    def partition(joint, inputs, **keywords):
        keywords["static_lifetime_input_indices"] = parameters_of(joint)
        saved = [(partitioner, partitioner.saved(joint, inputs, **keywords)) for partitioner in asked]
        found.append((copy_of(joint), saved))
        return partitioners.default_partition(joint, inputs, **keywords)

    with contextlib.ExitStack() as stack:
        joint = aot_export_joint_with_descriptors(stack, model, args)
        aot_compile_joint_with_descriptors(joint, partition_fn=partition)
    if not found:
        raise Unsupported("expected a model with something to compute and to differentiate, found no joint graph")
    (module, saved), = found
    return Joint(module, tensors_of(model, args), saved)


def parameters_of(joint):
    """Positions of parameters and buffers, which are free to save. torch.compile passes them too; without it, a module
    has none."""
    kinds = descriptors.ParamAOTInput, descriptors.BufferAOTInput
    placeholders = joint.graph.find_nodes(op="placeholder")
    return [index for index, node in enumerate(placeholders) if isinstance(node.meta["desc"], kinds)]


def tensors_of(model, args):
    tensors = {descriptors.ParamAOTInput(name): tensor for name, tensor in model.named_parameters()}
    tensors |= {descriptors.BufferAOTInput(name): tensor for name, tensor in model.named_buffers()}
    leaves = torch.utils._pytree.tree_leaves((args, {}))
    return tensors | {descriptors.PlainAOTInput(index): leaf for index, leaf in enumerate(leaves)}
