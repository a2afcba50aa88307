"""One rank of test_distributed.py: trains a model under PyTorch's own data parallelism, eagerly or compiled, and
prints its losses.

    python ranks.py STRATEGY WAY RANK RANKS FILE
"""

import datetime
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import antegrad


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), Block(16), Block(16), torch.nn.Linear(16, 3))


def parallel(model, strategy):
    if strategy == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model[1:3]:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def compiled(model, way):
    if way == "eager":
        return model
    if way == "antegrad.compile":
        return antegrad.compile(model)
    return torch.compile(model, backend=antegrad.backend)


def main(strategy, way, rank, ranks, file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=int(rank), world_size=int(ranks),
                            timeout=datetime.timedelta(seconds=60))
    model = parallel(make(), strategy)
    call = compiled(model, way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(5):
        torch.manual_seed(10 * step + dist.get_rank())
        x, y = torch.randn(8, 6), torch.randint(3, (8,))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("losses", json.dumps([loss.hex() for loss in losses]))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads of Gloo may outlive the interpreter
