"""PyTorch's database of modules, with the interface of its database of operators."""

import copy
import dataclasses

import torch
from torch.testing._internal.common_modules import module_db


@dataclasses.dataclass
class Sample:
    module: torch.nn.Module
    input: tuple  # positional arguments
    kwargs: dict
    args = ()

    def make(self):
        """A call of a copy of the module, and the tensors that it holds."""
        module = copy.deepcopy(self.module)
        return lambda given, **named: module(*given, **named), [*module.parameters(), *module.buffers()]


class Module:
    """A module of the database in one mode."""

    supports_autograd = True

    def __init__(self, info, training):
        self.info = info
        self.training = training
        self.name = f"{info.name}.{'train' if training else 'eval'}"

    def supported_dtypes(self, device):
        return self.info.dtypes

    supported_backward_dtypes = supported_dtypes

    def sample_inputs(self, device, dtype, requires_grad):
        inputs = self.info.module_inputs_func(
            self.info, device=device, dtype=dtype, requires_grad=requires_grad, training=self.training
        )
        for given in inputs:
            if given.forward_input is None:
                continue
            module = self.info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            module = module.to(device=device, dtype=dtype).train(self.training)
            arguments, named = given.forward_input.args, given.forward_input.kwargs
            if self.info.is_lazy:
                module(*arguments, **named)
            yield Sample(module, arguments, named)


def all():
    for info in module_db:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            yield Module(info, training)
