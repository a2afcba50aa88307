"""antegrad.BackwardState, and the hooks of Dynamo's graphs, which become hooks of one."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from antegrad._C import BackwardState, CaptureError

pytree.register_pytree_node(
    BackwardState, lambda state: ([state._handle()], None), lambda children, _: BackwardState._of_handle(children[0]))


class CallWithState:
    """A compiled function behind a graph with an object of Dynamo at place `place` of its arguments, on which Dynamo sets hooks
    after the call."""

    def __init__(self, function, place):
        self._function = function
        self._place = place

    def __call__(self, *args):
        hooks = args[self._place]
        state = BackwardState._of_hooks(functools.partial(_hook_of, hooks))
        return self._function(*args[:self._place], state, *args[self._place + 1:])


def take_state(graph_module: GraphModule, example_inputs: Sequence[Any]) -> tuple[GraphModule, int | None]:
    """Makes the hooks of a Dynamo graph those of a BackwardState. Returns the graph, and the place of that argument; None for a
    graph without one."""
    places = [place for place, value in enumerate(example_inputs) if type(value).__name__ == "BackwardState"]
    if not places:
        return graph_module, None
    graph_module = GraphModule(graph_module, copy.deepcopy(graph_module.graph))  # Dynamo still reads its own
    for node in (node for node in graph_module.graph.nodes if node.op == "call_function"):
        name = getattr(node.target, "__name__", None)
        if name == "_register_hook_trampoline":
            node.target = _tensor_hook(_names_in(node.target))
        elif name == "_in_graph_bw_hooks":
            node.target = _module_hooks(_names_in(node.target))
    graph_module.recompile()
    return graph_module, places[0]


def _names_in(function: Callable[..., Any]) -> dict[str, str]:
    """The names that Dynamo wrote into the function behind a node."""
    return {name: value for name, value in inspect.getclosurevars(function).nonlocals.items() if isinstance(value, str)}


def _tensor_hook(names):
    if names["name"] != "register_hook":
        raise CaptureError(f"expected register_hook on a tensor that the compiled function computes; found {names['name']}; register "
                           "it on a tensor that is made outside")

    def register(tensor, state):
        state.register_hook(tensor, names["hook_name"])

    return register


def _module_hooks(names):
    """The hooks on a module, of which Dynamo sets three attributes on its object: the module, and two lists."""
    module, hooks, pre_hooks = names["module_name"], names["user_hooks_name"], names["user_pre_hooks_name"]

    def make(state):
        return torch.utils.hooks.BackwardHook(
            None, (functools.partial(_call_module_hooks, state, module, hooks),), (functools.partial(_call_module_hooks, state, module, pre_hooks),))

    return make


def _call_module_hooks(state, module, hooks, _, replaced, *others):
    """Calls the hooks on the gradients of a module's inputs (and outputs). Those of tensors that need none are None: which ones
    is part of the name under which the hooks are found."""
    groups = (replaced, *others)
    shape = "|".join("".join("0" if gradient is None else "1" for gradient in group) for group in groups)
    given = [gradient for group in groups for gradient in group if gradient is not None]
    count = sum(gradient is not None for gradient in replaced)
    found = iter(state._call(f"{module}/{hooks}/{shape}", given, count))
    return tuple(gradient if gradient is None else next(found) for gradient in replaced)


def _hook_of(hooks, name):
    """What the hook of that name does: it calls what Dynamo has set on its object."""
    if "/" not in name:
        hook = getattr(hooks, name)
        return lambda gradients: [hook(*gradients)]
    module, functions, shape = name.split("/")
    return functools.partial(_run_module_hooks, getattr(hooks, module), getattr(hooks, functions), shape.split("|"))


def _run_module_hooks(module, functions, shape, gradients):
    rest = iter(gradients)
    replaced, *others = [tuple(next(rest) if there == "1" else None for there in group) for group in shape]
    for function in functions:
        made = function(module, replaced, *others)
        if made is not None:
            replaced = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    return [gradient for gradient, there in zip(replaced, shape[0]) if there == "1"]
