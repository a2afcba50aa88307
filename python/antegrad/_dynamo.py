"""The torch.compile backend: Dynamo's graphs become compiled functions."""

import sys
import weakref

import torch

from antegrad._C import Function
from antegrad._checkpoint import tag_checkpoints

# By what torch.compile was given, and by its code: the compiled functions of its graphs, oldest first. Dynamo owns them.
_functions = weakref.WeakKeyDictionary()


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Makes a compiled function of one of Dynamo's graphs: torch.compile(model, backend="antegrad", options={...}).

    It is captured when it is first called, and again for inputs that Dynamo's guards let pass and antegrad's do not
    (other sizes of a dynamic dimension). Calls of torch.utils.checkpoint become tags (antegrad.checkpoint). The options are those of antegrad.compile.
    """
    if mode is not None and mode != "default":
        raise TypeError(f"expected mode=None: antegrad has options of its own; found {mode!r}")
    # Its frames must not be compiled in turn when it runs to be captured.
    function = Function(torch._dynamo.disable(tag_checkpoints(graph_module).forward), dict(options or {}), "graph")
    for key in _keys_of(_called()):
        _functions.setdefault(key, []).append(weakref.ref(function))
    return function


def functions_of(compiled):
    """The compiled functions behind what torch.compile returned, whatever Dynamo made graphs of during its calls."""
    wrapper = compiled.forward if isinstance(compiled, torch.nn.Module) else compiled
    for key in _keys_of(getattr(wrapper, "_torchdynamo_orig_callable", None)):
        found = [function for reference in _functions.get(key, ()) if (function := reference()) is not None]
        if found:
            return found
    return []


def _keys_of(given):
    """What torch.compile was given, and its code: what has the same code may use the same graphs. Of a module it is given a
    function that calls it."""
    owner = getattr(given, "__self__", getattr(given, "__wrapped__", given))
    code = getattr(type(owner).forward if isinstance(owner, torch.nn.Module) else given, "__code__", None)
    return [key for key in (given, code) if key is not None]


def _called():
    """What torch.compile was given and is being called. Dynamo does not tell, but its wrapper is on the stack; graphs of
    functions that are called inside, and of what follows a graph break, are made under the same one."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper" and frame.f_globals["__name__"] == "torch._dynamo.eval_frame":
            return frame.f_locals["fn"]
        frame = frame.f_back
    return None
