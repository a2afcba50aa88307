"""Hooks on saved tensors that become part of compiled programs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import torch


def _marked(hook, options):
    @functools.wraps(hook, updated=())
    def call(value):
        return hook(value)

    call.__wrapped__ = hook
    call.antegrad_hook_options = options
    return call


class saved_tensors_hooks(torch.autograd.graph.saved_tensors_hooks):
    """torch.autograd.graph.saved_tensors_hooks with hooks that compiled functions inline (docs/saved-tensor-hooks.md).

        with antegrad.saved_tensors_hooks(lambda x: x.bfloat16(), lambda x: x.float()):
            loss = step(x, y)

    In eager code it is the same as libtorch's.

    `inlineable`: compiled functions capture the hooks and inline them into the forward and the backward, for the saved tensors
    that the option saved_tensors_hooks_filtering_mode names. Otherwise the hooks run after the forward and before the backward,
    for all saved tensors.

    `cache_hash`: hooks with the same hash count as the same hooks. Without it they are compared by identity. Each distinct pair
    of hooks needs a program of its own.
    """

    def __init__(
        self,
        pack_hook: Callable[[torch.Tensor], Any],
        unpack_hook: Callable[[Any], torch.Tensor],
        *,
        inlineable: bool = True,
        cache_hash: str = "",
        name: str | None = None,
    ) -> None:
        name = name or getattr(pack_hook, "__name__", type(pack_hook).__name__)
        options = {"inlineable": bool(inlineable), "cache_hash": str(cache_hash), "name": str(name)}
        self._hold(pack_hook, unpack_hook, options)

    def _hold(self, pack_hook, unpack_hook, options):
        super().__init__(_marked(pack_hook, options), _marked(unpack_hook, options))


class ready_made_hooks(saved_tensors_hooks):
    """A pair of hooks written in C++ (antegrad.compress)."""

    def __init__(self, hooks):
        self._hold(hooks.pack, hooks.unpack, {"ready_made": hooks})


def identity_of(pack_hook, unpack_hook):
    """The identity of hooks without a cache_hash in a cache that processes share: hashes, and the reasons that forbid caching
    (ProgramReport.cache_hashes, cache_bypass).

    The code of a graph module identifies it, except for functions that it calls by name. A function wrapped by torch.fx.wrap is
    identified by node.meta["user_cache_hash"].
    """
    hashes, bypass = [], []
    for part, hook in [("pack", pack_hook), ("unpack", unpack_hook)]:
        if not isinstance(hook, torch.fx.GraphModule):
            bypass.append(f"{part} is no graph module and there is no cache_hash")
            continue
        hashes.append(f"{part}: {hashlib.sha256(hook.code.encode()).hexdigest()}")
        for node in hook.graph.nodes:
            user_hash = node.meta.get("user_cache_hash")
            if node.op == "call_function" and node.meta.get("is_wrapped") and user_hash:
                hashes.append(f"{part}: {_name_of(node.target)}: {user_hash}")
            elif (why := _unknown_code(hook, node)) is not None:
                bypass.append(f"{part} {why}")
    return hashes, bypass


def _name_of(function):
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__name__', function)}"


def _unknown_code(hook, node):
    """Why the text of the graph does not determine what the node computes; None if it does."""
    if node.op == "call_function":
        if node.meta.get("is_wrapped"):
            return f"calls the wrapped function {_name_of(node.target)}, whose node has no user_cache_hash"
        if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return None
        if (getattr(node.target, "__module__", None) or "torch").split(".")[0] not in _KNOWN_MODULES:
            return f"calls the function {_name_of(node.target)}"
    if node.op == "call_module":
        module = type(hook.get_submodule(node.target))
        if not module.__module__.startswith("torch.nn."):
            return f"calls a module of type {module.__module__}.{module.__qualname__}"
    return None


# The version of a module identifies its functions. Functions of torch's extension modules name no module.
_KNOWN_MODULES = ("torch", "_operator", "builtins", "math")
