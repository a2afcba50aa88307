"""One rank of PyTorch's FSDP2 over Gloo, eager or compiled by Inductor, for bench/sharded.cpp.

sharded.py fsdp2|fsdp2_compiled FILE STEPS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH

Rank, size and address are in the environment. Rank 0 writes what it measured to FILE.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import gpt
import measure


def local_bytes(tensors):
    return sum(getattr(tensor, "_local_tensor", tensor).nbytes for tensor in tensors)


def main(way, file, steps, vocabulary, layers, width, heads, context, batch):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = gpt.Gpt(vocabulary, layers, width, heads, context)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))  # not the GPU, if there is one
    for block in model.blocks:
        if way == "fsdp2_compiled":
            block.compile()  # graphs end at the hooks of FSDP2
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    torch.manual_seed(1 + dist.get_rank())
    tokens = torch.randint(vocabulary, (batch, context + 1))
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()

    for _ in range(4):
        step()
    times = []
    for _ in range(steps):
        dist.barrier()
        begin = time.perf_counter()
        step()
        dist.barrier()
        times.append(1e3 * (time.perf_counter() - begin))
    kept = 3 * local_bytes(model.parameters())
    peak = kept / 2**20 + measure.peak_mib(model, step)
    if dist.get_rank() == 0:
        with open(file, "w") as out:
            json.dump({"step_ms": times, "peak_mib": peak}, out)
    dist.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
    sys.stdout.flush()
    os._exit(0)  # threads of Gloo may outlive the interpreter
