"""Hooks on saved tensors that become part of compiled programs."""

import functools

import torch


def _marked(hook, options):
    @functools.wraps(hook, updated=())
    def call(value):
        return hook(value)

    call.__wrapped__ = hook
    call.antegrad_hook_options = options
    return call


class saved_tensors_hooks(torch.autograd.graph.saved_tensors_hooks):
    """torch.autograd.graph.saved_tensors_hooks, whose hooks compiled functions inline (docs/saved-tensor-hooks.md).

        with antegrad.saved_tensors_hooks(lambda x: x.bfloat16(), lambda x: x.float()):
            loss = step(x, y)

    In eager code it is the same as libtorch's. `inlineable`: compiled functions capture the hooks and put them into the
    forward and the backward, for the saved tensors that the option saved_tensors_hooks_filtering_mode names; otherwise
    they run after the forward and before the backward, for all. `cache_hash`: hooks with the same hash are one; without it
    they are told apart by identity, and other hooks are another program.
    """

    def __init__(self, pack_hook, unpack_hook, *, inlineable=True, cache_hash="", name=None):
        name = name or getattr(pack_hook, "__name__", type(pack_hook).__name__)
        options = {"inlineable": bool(inlineable), "cache_hash": str(cache_hash), "name": str(name)}
        self._hold(pack_hook, unpack_hook, options)

    def _hold(self, pack_hook, unpack_hook, options):
        super().__init__(_marked(pack_hook, options), _marked(unpack_hook, options))


class ready_made_hooks(saved_tensors_hooks):
    """A pair of hooks that is written in C++ (antegrad.compress)."""

    def __init__(self, hooks):
        self._hold(hooks.pack, hooks.unpack, {"ready_made": hooks})
