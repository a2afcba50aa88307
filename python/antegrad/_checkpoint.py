"""Checkpoints: antegrad.checkpoint anywhere, and torch.utils.checkpoint in Dynamo's graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from antegrad import _C
from antegrad._graphs import change_nodes

_tag = torch.ops.higher_order.tag_activation_checkpoint


def checkpoint(function: Callable[..., Any], *args: Any, policy: Callable[..., Any] | list[Any] | None = None, **kwargs: Any) -> Any:
    """Calls function(*args, **kwargs), frees its activations, and recomputes them in the backward pass.

    In a function that antegrad compiles, the checkpoint is a tag on the recorded nodes: results, gradients and random numbers
    have the same bits as without it. Elsewhere it is torch.utils.checkpoint with use_reentrant=False.

    `policy` is a policy of torch.utils.checkpoint.create_selective_checkpoint_contexts: a function of a context and an
    operator that returns a CheckpointPolicy, or a list of operators to save. During capture, antegrad calls it without the
    operator's arguments, and with the functional form of an in-place operator.
    """
    if not torch.compiler.is_compiling() and _C.capturing():
        return _tagged(function, args, kwargs, policy)
    if policy is not None:
        kwargs["context_fn"] = functools.partial(create_selective_checkpoint_contexts, policy)
    return torch_checkpoint(function, *args, use_reentrant=False, **kwargs)


def tag_checkpoints(graph_module):
    """Turns the checkpoints in a Dynamo graph into tags for the capture. Modifies the graph."""
    return change_nodes(graph_module, _tag, lambda node: setattr(node, "target", run_tagged))


def run_tagged(body, *args, **kwargs):
    _, own = _tag.divide_kwargs(kwargs)
    policy = None
    if context_fn := body.meta.get("_checkpoint_context_fn"):
        policy = getattr(context_fn()[0], "policy_fn", None)
        if policy is None:  # another context may change operators at will, which a tag cannot express
            raise NotImplementedError(
                "antegrad: expected a context_fn by create_selective_checkpoint_contexts in a compiled checkpoint; "
                f"found {context_fn}; pass a policy")
    return _tagged(body, args, own, policy)


def _tagged(function, args, kwargs, policy):
    with _C.CheckpointBlock(None if policy is None else functools.partial(_word_for, _as_function(policy))):
        return function(*args, **kwargs)


def _as_function(policy):
    if callable(policy):
        return policy
    return lambda _, op: CheckpointPolicy.MUST_SAVE if op in policy else CheckpointPolicy.PREFER_RECOMPUTE


def _word_for(policy, name):
    """The answer of a policy for an operator such as "aten::mm.default". Operators that only antegrad has are recomputed."""
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    op = getattr(getattr(getattr(torch.ops, space), base, None), overload, None)
    if op is None:
        return "must_recompute"
    says = policy(SelectiveCheckpointContext(is_recompute=False), op)
    if isinstance(says, bool):  # the older form: whether to save
        says = CheckpointPolicy.MUST_SAVE if says else CheckpointPolicy.MUST_RECOMPUTE
    return says.name.lower()
