"""antegrad.compile: a Python function or module, captured once with its backward and run as a program."""

import torch

from antegrad._C import Function
from antegrad._dynamo import functions_of


def compile(function=None, /, **options):
    """Compiles a function over tensors, or a module; use it like the function itself, also as a decorator.

    Arguments and results are tensors, numbers, strings, and structures of these: tuples, lists, dictionaries, dataclasses,
    types registered with torch.utils._pytree. Lists, dictionaries and dataclasses that the function changes are changed as in
    eager. Tensors that the function holds (parameters, buffers, closures) are found when it is captured, and gradients flow to
    them as in eager.
    Other Python state that it reads is fixed at capture: declare it with `.guard(read)`, or the audit finds it
    (calls 2, 4, 8, ... are captured again and compared).

    Options go over the defaults of antegrad.config: memory_budget="512MiB", partition="min_cut", check_against_eager=2,
    on_refusal="eager" and others. docs/options.md and the command `antegrad options` list them.

    Raises OptionError for options, and on calls BudgetError, CaptureError and its kinds, HostStateError, MismatchError, and what the
    function raises; then everything is as it was before the call.
    """
    if function is None:
        return lambda f: compile(f, **options)
    if not callable(function):
        raise TypeError(f"expected a function or a module, found {type(function).__name__}")
    compiled = Function(function, options, getattr(function, "__name__", type(function).__name__))
    if isinstance(function, torch.nn.Module):
        modules = list(function.modules())
        compiled.guard(lambda: [m.training for m in modules])
    return compiled


class Reports(list):
    """Reports on the graphs that Dynamo made of one function; print() shows them one after the other."""

    def __str__(self):
        return "".join(map(str, self))

    __repr__ = __str__


def report(compiled):
    """What a compiled function did: of antegrad.compile a Report, of torch.compile(..., backend="antegrad") a list of
    them, one a graph that Dynamo made. print() shows either as text."""
    if isinstance(compiled, Function):
        return compiled.report()
    functions = functions_of(compiled)
    if not functions:
        raise TypeError(
            "expected what antegrad.compile or torch.compile(..., backend='antegrad') returned, after its first call; "
            f"found {type(compiled).__name__}"
        )
    return Reports(f.report() for f in functions)
