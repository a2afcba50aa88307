"""The torch.compile backend: Dynamo's graphs become compiled functions."""

import inspect

import torch

from antegrad._C import Function


def backend(graph_module, example_inputs, *, options=None, mode=None):
    """Makes a compiled function of one of Dynamo's graphs: torch.compile(model, backend="antegrad", options={...}).

    It is captured when it is first called, and again for inputs that Dynamo's guards let pass and antegrad's do not
    (other sizes of a dynamic dimension). The options are those of antegrad.compile.
    """
    if mode is not None and mode != "default":
        raise TypeError(f"expected mode=None: antegrad has options of its own; found {mode!r}")
    given = dict(options or {})
    given.setdefault("name", "graph")
    # Its frames must not be compiled in turn when it runs to be captured.
    return Function(torch._dynamo.disable(graph_module.forward), given)


def functions_of(compiled):
    """The compiled functions behind what torch.compile returned, the parts after a graph break included."""
    found, seen = [], set()
    starts = [compiled]
    if isinstance(compiled, torch.nn.Module):
        # Of a module of libtorch's own Dynamo compiles a wrapper, of others the module's forward().
        starts = [compiled.forward, getattr(compiled, "_orig_mod", compiled).forward]
    for start in starts:
        function = getattr(start, "_torchdynamo_orig_callable", start)
        while function is not None:  # what wraps it included: Dynamo may have compiled that
            if hasattr(function, "__code__"):
                _collect(function.__code__, function.__globals__, found, seen)
            function = getattr(function, "__wrapped__", None)
    return found


def _collect(code, names, found, seen):
    # Dynamo keeps graphs and continuations as globals of the compiled function's module, and uses them by name.
    if code in seen:
        return
    seen.add(code)
    for entry in torch._dynamo.eval_frame._debug_get_cache_entry_list(code):
        for name in entry.code.co_names:
            if name.startswith("__compiled_fn"):
                function = inspect.unwrap(names.get(name), stop=lambda f: isinstance(f, Function))
                if isinstance(function, Function) and function not in found:
                    found.append(function)
            elif name.startswith("__resume_at"):
                _collect(names[name].__code__, names, found, seen)
