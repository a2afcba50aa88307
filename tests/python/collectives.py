"""One rank of test_distributed.py: functions that call functional collectives, compiled and eager.

    python collectives.py CASE WAY RANK RANKS FILE
"""

import datetime
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import antegrad


def group():
    return dist.group.WORLD


def reduced(x, w):
    return funcol.all_reduce((x @ w).sin(), "sum", group()).cos()


def gathered(x, w):
    return funcol.all_gather_tensor(x @ w, 0, group()).relu()


def gathered_columns(x, w):
    return funcol.all_gather_tensor(x @ w, 1, group()).relu()


def scattered(x, w):
    return funcol.reduce_scatter_tensor(x @ w, "sum", 0, group()) * 2


def exchanged(x, w):
    return funcol.all_to_all_single(x @ w, None, None, group()).exp()


def several(x, w):
    a, b = funcol.all_reduce(x @ w, "sum", group()), funcol.all_reduce(x.exp(), "sum", group())
    return funcol.all_gather_tensor(a * b, 0, group()).sum(1)


def megatron(x, w):
    """Two halves of a product, split between the ranks."""
    half = w.chunk(dist.get_world_size(), 1)[dist.get_rank()]
    return funcol.all_reduce(torch.nn.functional.gelu(x @ half) @ half.t(), "sum", group())


def written(x, w):
    y = x @ w
    dist.all_reduce(y.detach())
    return y


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 16)
        self.down = torch.nn.Linear(16, 6)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


def tensor_parallel(way):
    """DTensor's parameters: the loss and the gradients, as whole tensors."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(TwoLayers(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    call = compiled(model, way)
    results = []
    for step in range(3):
        torch.manual_seed(step)
        loss = call(torch.randn(8, 6)).square().mean()
        model.zero_grad()
        loss.backward()
        results += [loss.detach()] + [p.grad.full_tensor().clone() for p in model.parameters()]
    return results


def compiled(call, way):
    if way == "antegrad.compile":
        return antegrad.compile(call)
    if way == "torch.compile":
        return torch.compile(call, backend=antegrad.backend, fullgraph=True)
    return call


def run(function, way):
    """The result and the gradient, several times."""
    call = compiled(function, way)
    results = []
    for step in range(3):
        torch.manual_seed(10 * step + dist.get_rank())
        x, w = torch.randn(8, 6), torch.randn(6, 6, requires_grad=True)
        y = call(x, w)
        y.square().sum().backward()
        results += [y.detach().clone(), w.grad]
    if way == "antegrad.compile":
        assert call.report().eager_calls == 0 and call.report().compiled_calls == 3, call.report()
    return results


def main(case, way, rank, ranks, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=int(rank), world_size=int(ranks),
                            timeout=datetime.timedelta(seconds=60))
    compute = tensor_parallel if case == "tensor_parallel" else lambda how: run(globals()[case], how)
    wanted = compute("eager")
    found = compute(way)
    assert len(wanted) == len(found)
    for number, (a, b) in enumerate(zip(wanted, found)):
        assert torch.equal(a, b), (number, (a - b).abs().max())
    print("equal", len(wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads of Gloo may outlive the interpreter
