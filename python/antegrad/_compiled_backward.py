"""antegrad.compiled_backward: the backward passes of a process as programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.variable import Variable
from typing_extensions import Unpack

from antegrad import _C
from antegrad._options import Options

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _why_left(tensors, gradients, inputs, create_graph):
    """Why libtorch runs a pass itself; None if antegrad runs it. Wrong arguments are among the reasons: libtorch says what is
    wrong with them."""
    if create_graph:
        return "create_graph"
    if torch.is_anomaly_enabled():
        return "anomaly mode"
    if torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None:
        return "a dispatch mode, or a transform of functorch"
    if len(gradients) != len(tensors):
        return "arguments that do not fit"
    for tensor in (*tensors, *inputs):
        if type(tensor) not in _PLAIN or not tensor.requires_grad:
            return "tensors of a subclass, or without a place in the graph"
    for tensor, gradient in zip(tensors, gradients):
        if gradient is None:
            return "no gradient for a tensor of several elements"
        if type(gradient) not in _PLAIN:
            return "tensors of a subclass, or without a place in the graph"
    return None


class _Engine:
    """In the place of Variable._execution_engine, through which Python starts backward passes."""

    def __init__(self, libtorch):
        self._libtorch = libtorch

    def __getattr__(self, name):
        return getattr(self._libtorch, name)

    def run_backward(self, tensors, grad_tensors, keep_graph, create_graph, inputs=(), allow_unreachable=False, accumulate_grad=False):
        reason = _why_left(tensors, grad_tensors, inputs, create_graph)
        if reason is not None:
            _C.note_left_pass(reason)
            return self._libtorch.run_backward(
                tensors, grad_tensors, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
        found = _C.run_backward(tensors, grad_tensors, keep_graph, inputs, accumulate_grad)
        if found is None:
            return None
        if not allow_unreachable and any(gradient is None for gradient in found):
            raise RuntimeError("a tensor whose gradient is asked for is not used in the graph; pass allow_unused=True to get None for it")
        return tuple(found)


_lock = threading.Lock()
_scopes = 0


def _count_scopes(change):
    """The engine stands in while there are scopes."""
    global _scopes
    with _lock:
        before, _scopes = _scopes, _scopes + change
        if before == 0:
            Variable._execution_engine = _Engine(Variable._execution_engine)
        elif _scopes == 0:
            Variable._execution_engine = Variable._execution_engine._libtorch


@contextlib.contextmanager
def _hooks_in_graphs():
    """Dynamo hands hooks over with the call (_backward_state.py) where it takes compiled autograd to be on."""
    from torch._dynamo import compiled_autograd

    before, compiled_autograd.compiled_autograd_enabled = compiled_autograd.compiled_autograd_enabled, True
    try:
        yield
    finally:
        compiled_autograd.compiled_autograd_enabled = before


class compiled_backward:
    """Runs the backward passes of all threads of the process as programs:

        with antegrad.compiled_backward() as scope:
            loss.backward()
        print(scope.report())

    Of the options of antegrad.compile, lowering, kept_memory, max_programs, verify_graphs, dump_dir and those of passes are used.
    Gradients, hooks and their order are those of libtorch's engine, with lowering="exact" its bits, too. Scopes may be nested;
    the innermost options hold. An object may be entered again after it was left: it counts and captures anew.

    With `dynamo_hooks`, graphs that Dynamo traces within the scope contain the hooks that their code registers on tensors and
    modules, and call them in each backward. Otherwise Dynamo computes hooks as part of the graph, or breaks it.
    """

    def __init__(self, *, dynamo_hooks: bool = False, **options: Unpack[Options]) -> None:
        self._dynamo_hooks = dynamo_hooks
        self._open = contextlib.ExitStack()  # what ends with the scope
        self._options: dict[str, Any] = dict(options)
        self._scope: _C.CompiledBackward | None = None
        self._last: _C.BackwardReport | None = None

    def __enter__(self) -> compiled_backward:
        if self._scope is not None:
            raise RuntimeError("expected a scope that was not entered; found one that was; make another one")
        with contextlib.ExitStack() as stack:
            if self._dynamo_hooks:
                stack.enter_context(_hooks_in_graphs())
            self._scope = _C.CompiledBackward(self._options, "backward")
            _count_scopes(1)
            stack.callback(_count_scopes, -1)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self._last = self.report()
        self._scope = None

    def report(self) -> _C.BackwardReport:
        """What the scope did so far; after its end, what it did."""
        if self._scope is not None:
            return self._scope.report()
        if self._last is None:
            raise RuntimeError("expected a scope that was entered; found one that was not; use it in a with statement")
        return self._last

    def reset(self) -> None:
        """Forgets all programs."""
        if self._scope is not None:
            self._scope.reset()


@contextlib.contextmanager
def eager_backward() -> Iterator[None]:
    """Leaves the passes that this thread starts to libtorch, also within a scope of compiled_backward."""
    _C.leave_passes(1)
    try:
        yield
    finally:
        _C.leave_passes(-1)
