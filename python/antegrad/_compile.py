"""antegrad.compile and compile_step: Python functions, captured once with their backward and run as programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from typing_extensions import Unpack

from antegrad import _logs
from antegrad._C import CaptureError, Function, Step
from antegrad._modes import Mode, options_of_mode
from antegrad._optimizers import step_optimizer
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
    compiled = Function(function, {**options_of_mode(mode), **options}, _name_of(function))
    _logs.prepare(compiled)
    if isinstance(function, torch.nn.Module):
        if options.get("on_refusal") != "eager":
            _refuse_hooks_of_ranks(function)
        _guard_modes(compiled, function)
    return compiled


def compile_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[..., torch.Tensor],
    /,
    *,
    clip_value: float | None = None,
    clip_norm: float | None = None,
    clip_norm_type: float = 2.0,
    accumulate: int = 1,
    mode: Mode | None = None,
    **options: Unpack[Options],
) -> Step:
    """Compiles a whole training step of `model`: forward, backward and the optimizer's update as one program.

    The result is called with the arguments of `loss_fn`, which computes the loss, a tensor of one element. A call does what
    `loss.backward(); optimizer.step(); optimizer.zero_grad()` would do, bit for bit, and returns the loss without a history.
    `.grad` is neither read nor written. The optimizer is a torch.optim.SGD, Adam or AdamW; its state stays its own, so
    state_dict() and learning rate schedulers work as usual.

    `clip_value` and `clip_norm` limit gradients as torch.nn.utils.clip_grad_value_ and clip_grad_norm_ do, by value first.
    With `accumulate`, gradients of so many calls are added up and the last one updates. Options are those of compile(), but
    `partition` is "priced" unless it is chosen: what costs little to compute again is not saved.

    Raises OptionError for another optimizer or an invalid option. A call raises what a compiled function raises, and
    InputError where there is no program for the optimizer's options (docs/whole-step.md).
    """
    step = Step(
        loss_fn,
        step_optimizer(optimizer),
        {**options_of_mode(mode), **options},
        _name_of(loss_fn),
        clip_value,
        clip_norm,
        clip_norm_type,
        accumulate,
    )
    _logs.prepare(step)
    _guard_modes(step, model)
    return step


def _refuse_hooks_of_ranks(module):
    """PyTorch's data parallelism sends and frees tensors in hooks, which no graph could contain."""
    kinds = {"FSDPModule": "FSDP2", "DistributedDataParallel": "DistributedDataParallel", "FullyShardedDataParallel": "FSDP"}
    for inner in module.modules():
        for base in type(inner).__mro__:
            if base.__module__.startswith("torch.") and base.__name__ in kinds:
                name = kinds[base.__name__]
                raise CaptureError(
                    f"{name}: expected a module without hooks that talk to other ranks; found those of {name}; pass it to "
                    "torch.compile(backend=antegrad.backend), which compiles what runs between them"
                )


def _name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def _guard_modes(compiled, module):
    modules = list(module.modules())
    compiled.guard(lambda: [m.training for m in modules])
