"""The parts of a model's training."""

import dataclasses
from typing import Callable

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Training:
    """A row in the table of models."""

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[torch.Tensor, ...]]  # drawn from the default generator; its shapes are the same each time
    # (model, *batch) -> loss, by the submodule whose parameters its optimiser steps; one alone steps all of them
    losses: Callable | dict[str, Callable]
    optimizer: Callable = torch.optim.AdamW

    @property
    def phases(self):
        """The losses of one step in order, by the name of a submodule; "" is the model itself."""
        return self.losses if isinstance(self.losses, dict) else {"": self.losses}


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)


def adam_of_gans(parameters):
    return torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999))
