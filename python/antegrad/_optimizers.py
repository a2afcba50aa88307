"""Optimizers of torch.optim in whole steps: their options as numbers and flags, and their state.

The arithmetic is in C++ (src/step/arithmetic.h), which also says what numbers and flags mean.
"""

from __future__ import annotations

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

from antegrad._C import InputError, OptionError


class StepOptimizer:
    """What a whole step reads and writes of an optimizer."""

    arithmetic: str

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self._unused: dict[torch.Tensor, list[torch.Tensor]] = {}  # state of parameters without steps

    def layout(self):
        """By group: numbers, and of each parameter the tensor, flags, numbers and state."""
        _require_no_hooks(self.optimizer)
        groups = []
        for group in self.optimizer.param_groups:
            _require_plain(group)
            parameters = [self._parameter(group, p) for p in group["params"] if p.requires_grad]
            groups.append((self.numbers(group), parameters))
        return groups

    def _parameter(self, group, parameter):
        state = self.optimizer.state.get(parameter) or {}
        tensors = self.tensors(group, state)
        if tensors is None:
            if parameter not in self._unused:
                self._unused[parameter] = self.new_tensors(group, parameter)
            tensors = self._unused[parameter]
        return parameter, self.flags(group, state), self.numbers_of_step(group, state), tensors

    def note_steps(self, parameters):
        """These parameters have had one more step, from the tensors that layout() gave."""
        for parameter in parameters:
            self.note_step(parameter, self._unused.pop(parameter, None))
        self.optimizer._opt_called = True  # what a learning rate scheduler looks at

    def step(self):
        self.optimizer.step()


class _Sgd(StepOptimizer):
    arithmetic = "sgd"

    def flags(self, group, state):
        return [
            group["weight_decay"] != 0,
            group["momentum"] != 0,
            group["nesterov"],
            state.get("momentum_buffer") is None,
            group["maximize"],
        ]

    def numbers(self, group):
        return [group["weight_decay"], group["momentum"], 1 - group["dampening"], -group["lr"]]

    def numbers_of_step(self, group, state):
        return []

    def tensors(self, group, state):
        if group["momentum"] == 0:
            return []
        buffer = state.get("momentum_buffer")
        return None if buffer is None else [buffer]

    def new_tensors(self, group, parameter):
        return [torch.empty_like(parameter, memory_format=torch.preserve_format, requires_grad=False)]

    def note_step(self, parameter, new):
        if new is not None:
            (self.optimizer.state[parameter]["momentum_buffer"],) = new


class _Adam(StepOptimizer):
    arithmetic = "adam"

    def flags(self, group, state):
        return [group["weight_decay"] != 0, group["decoupled_weight_decay"], group["amsgrad"], True, group["maximize"]]

    def numbers(self, group):
        beta1, beta2 = group["betas"]
        decay = group["weight_decay"]
        if group["decoupled_weight_decay"]:
            decay = 1 - group["lr"] * decay
        return [decay, beta1, 1 - beta1, beta2, 1 - beta2, group["eps"]]

    def numbers_of_step(self, group, state):
        step = (state["step"].item() if state else 0.0) + 1
        beta1, beta2 = group["betas"]
        return [(1 - beta2**step) ** 0.5, -(group["lr"] / (1 - beta1**step))]

    def tensors(self, group, state):
        if not state:
            return None
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * group["amsgrad"]
        return [state[name] for name in names]

    def new_tensors(self, group, parameter):
        with torch.no_grad():
            return [torch.zeros_like(parameter, memory_format=torch.preserve_format) for _ in range(2 + group["amsgrad"])]

    def note_step(self, parameter, new):
        state = self.optimizer.state[parameter]
        if new is not None:
            dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
            state["step"] = torch.tensor(0.0, dtype=dtype)
            state.update(zip(("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), new))
        state["step"] += 1


_BY_CLASS = {SGD: _Sgd, Adam: _Adam, AdamW: _Adam}


def step_optimizer(optimizer: Optimizer) -> StepOptimizer:
    """Raises OptionError for an optimizer of which the step cannot be compiled."""
    made = _BY_CLASS.get(type(optimizer))
    if made is None:
        raise OptionError(
            "antegrad: expected an optimizer of which the step can be compiled (torch.optim.SGD, Adam or AdamW), found "
            f"{type(optimizer).__name__}; compile the loss alone (antegrad.compile) and call step()"
        )
    return made(optimizer)


def _require_no_hooks(optimizer):
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise InputError(
            "antegrad: expected an optimizer without hooks on its step, which a compiled step would not call; remove them, or "
            "compile the loss alone (antegrad.compile) and call step()"
        )


def _require_plain(group):
    for name in ("fused", "capturable", "differentiable"):
        if group.get(name):
            raise InputError(
                f"antegrad: expected an optimizer without {name}=True, found it in a group; leave it out, or compile the loss "
                "alone (antegrad.compile) and call step()"
            )
    for name in ("lr", "weight_decay", "betas"):
        values = group.get(name)
        if any(isinstance(value, torch.Tensor) for value in (values if isinstance(values, tuple) else (values,))):
            raise InputError(
                f"antegrad: expected {name} as a number, found a tensor; use a number, which may change from call to call "
                "without a new program"
            )
