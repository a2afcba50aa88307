"""antegrad.compile: a Python function or module, captured once with its backward and run as a program."""

import torch

from antegrad._C import Function
from antegrad._dynamo import functions_of


def compile(function=None, /, **options):
    """Compiles a function over tensors, or a module. The result is called like the function. Also a decorator.

    Arguments and results are tensors, numbers, strings, and structures of these: tuples, lists, dictionaries, dataclasses and
    types registered with torch.utils._pytree. If the function changes lists, dictionaries or dataclasses, they change as in
    eager. Capture finds the tensors that the function holds (parameters, buffers, closures), and gradients flow to them as in
    eager.

    Other Python state that the function reads is fixed at capture. Declare it with `.guard(read)`; the audit finds undeclared
    state (calls 2, 4, 8, ... are captured again and compared).

    Options override the defaults in antegrad.config: memory_budget="512MiB", partition="min_cut", check_against_eager=2,
    on_refusal="eager" and others. docs/options.md and the command `antegrad options` list them.

    Raises OptionError for an invalid option. A call raises BudgetError, CaptureError or one of its subclasses, HostStateError,
    MismatchError, or whatever the function raises. A failed call leaves everything as it was.
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
    """Reports on the graphs that Dynamo made from one function. print() shows them one after another."""

    def __str__(self):
        return "".join(map(str, self))

    __repr__ = __str__


def report(compiled):
    """Reports what a compiled function did: a Report for antegrad.compile, and a list of Reports, one per Dynamo graph, for
    torch.compile(..., backend="antegrad"). print() shows either as text."""
    if isinstance(compiled, Function):
        return compiled.report()
    functions = functions_of(compiled)
    if not functions:
        raise TypeError(
            "expected what antegrad.compile or torch.compile(..., backend='antegrad') returned, after its first call; "
            f"found {type(compiled).__name__}"
        )
    return Reports(f.report() for f in functions)
