"""The torch.compile backend: Dynamo's graphs become compiled functions."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from antegrad import _logs
from antegrad._C import CaptureError, Function
from antegrad._checkpoint import tag_checkpoints
from antegrad._modes import options_of_mode

# The compiled functions of the graphs of each callable given to torch.compile, oldest first, by the callable and by its code.
# Dynamo owns them.
_functions = weakref.WeakKeyDictionary()


def backend(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph: torch.compile(model, backend="antegrad", options={...}).

    The graph is captured on its first call, and again for inputs that pass Dynamo's guards but not antegrad's (other sizes of
    a dynamic dimension). Floats and ints that change from call to call are inputs where they can be (_numbers.py). Calls of
    torch.utils.checkpoint become tags (antegrad.checkpoint), launches of Triton kernels operators (_triton.py), and hooks that
    Dynamo hands over with the call those of a BackwardState (_backward_state.py). The options and modes are those of antegrad.compile.
    """
    # What these import takes a third of the time that torch itself takes, and Dynamo has imported it by now.
    from antegrad._backward_state import CallWithState, take_state
    from antegrad._numbers import CallWithNumbers, take_numbers
    from antegrad._triton import take_kernels

    _refuse_dtensors(example_inputs)
    settings = {**options_of_mode(mode), **(options or {})}
    graph_module, state = take_state(graph_module, example_inputs)
    graph_module, *numbers = take_numbers(take_kernels(tag_checkpoints(graph_module)))
    # Dynamo must not compile the frames of this function while antegrad captures it.
    function = Function(torch._dynamo.disable(graph_module.forward), settings, "graph")
    _logs.prepare(function)
    for key in _keys_of(_called()):
        _functions.setdefault(key, []).append(weakref.ref(function))
    call = CallWithNumbers(function, *numbers) if numbers else function
    return call if state is None else CallWithState(call, state)


def _refuse_dtensors(inputs):
    """A DTensor's operators choose collectives in Python, which no graph of antegrad's could contain. AOTAutograd takes them apart."""
    tensor = sys.modules.get("torch.distributed.tensor")
    if tensor is not None and any(isinstance(given, tensor.DTensor) for given in inputs):
        raise CaptureError(
            "DTensor: expected plain tensors as inputs of a graph; found a torch.distributed.tensor.DTensor; compute with local "
            "tensors and torch.distributed._functional_collectives, or compile with backend=antegrad.inductor(...)"
        )


def functions_of(compiled):
    """The compiled functions behind a callable that torch.compile returned, for all graphs that Dynamo made in its calls; behind
    a module, also those of the modules in it, whatever wraps them."""
    if not isinstance(compiled, torch.nn.Module):
        return _functions_behind(compiled)
    found = {}
    for module in compiled.modules():
        for call in (module.forward, module._compiled_call_impl):
            found.update((id(function), function) for function in _functions_behind(call))
    return list(found.values())


def _functions_behind(call):
    if isinstance(call, Function):
        return [call]
    for key in _keys_of(getattr(call, "_torchdynamo_orig_callable", None)):
        found = [function for reference in _functions.get(key, ()) if (function := reference()) is not None]
        if found:
            return found
    return []


def _keys_of(given):
    """The keys of a callable given to torch.compile: itself and its code, since callables with the same code may share
    graphs. For a module, torch.compile passes on a function that calls it."""
    owner = getattr(given, "__self__", getattr(given, "__wrapped__", given))
    code = getattr(type(owner).forward if isinstance(owner, torch.nn.Module) else given, "__code__", None)
    return [key for key in (given, code) if key is not None]


def _called():
    """The callable given to torch.compile whose call is running. Dynamo does not pass it on, but its wrapper is on the stack.
    Graphs of inner functions, and of the code after a graph break, are made under the same wrapper."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_globals["__name__"] == "torch._dynamo.eval_frame":
            return frame.f_locals["fn"]
        frame = frame.f_back
    return None
