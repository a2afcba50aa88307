"""antegrad.compile: a Python function or module, captured once with its backward and run as a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import torch

from antegrad import _logs
from antegrad._C import Function
from antegrad._modes import Mode, options_of_mode

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from antegrad._options import Options


@overload
def compile(function: Callable[..., Any], /, *, mode: Mode | None = None, **options: Unpack[Options]) -> Function: ...
@overload
def compile(
    function: None = None, /, *, mode: Mode | None = None, **options: Unpack[Options]
) -> Callable[[Callable[..., Any]], Function]: ...


def compile(function=None, /, *, mode=None, **options):
    """Compiles a function over tensors, or a module. The result is called like the function. Also a decorator.

    Arguments and results are tensors, numbers, strings, and structures of these: tuples, lists, dictionaries, dataclasses and
    types registered with torch.utils._pytree. If the function changes lists, dictionaries or dataclasses, they change as in
    eager. Capture finds the tensors that the function holds (parameters, buffers, closures), and gradients flow to them as in
    eager.

    Other Python state that the function reads is fixed at capture. Declare it with `.guard(read)`; the audit finds undeclared
    state (calls 2, 4, 8, ... are captured again and compared).

    Options override the defaults in antegrad.config: memory_budget="512MiB", partition="min_cut", check_against_eager=2,
    on_refusal="eager" and others. docs/options.md and the command `antegrad options` list them. `mode` is one of
    torch.compile's names for several options at once, "default" or "max-autotune-no-cudagraphs"; options override it.

    Raises OptionError for an invalid option. A call raises BudgetError, CaptureError or one of its subclasses, HostStateError,
    MismatchError, or whatever the function raises. A failed call leaves everything as it was.
    """
    if function is None:
        return lambda f: compile(f, mode=mode, **options)
    if not callable(function):
        raise TypeError(f"expected a function or a module, found {type(function).__name__}")
    compiled = Function(function, {**options_of_mode(mode), **options}, getattr(function, "__name__", type(function).__name__))
    _logs.prepare(compiled)
    if isinstance(function, torch.nn.Module):
        modules = list(function.modules())
        compiled.guard(lambda: [m.training for m in modules])
    return compiled
