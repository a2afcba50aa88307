"""One rank of PyTorch's FSDP2 over Gloo or NCCL, eager or compiled by Inductor, for bench/sharded.cpp.

sharded.py fsdp2|fsdp2_compiled FILE STEPS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH ON_GPUS

Rank, size and address are in the environment. Rank 0 writes what it measured to FILE.
"""

import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.profiler import ProfilerActivity, profile

import gpt
import measure


def local_bytes(tensors):
    return sum(getattr(tensor, "_local_tensor", tensor).nbytes for tensor in tensors)


def wire_mib(step, gathered):
    """What a step hands to collectives: what gathers make, of so many bytes an element, and what reductions
    take, in float32."""
    counted = {  # the number of an argument, and bytes
        "c10d::_allgather_base_": (0, gathered),
        "c10d::_reduce_scatter_base_": (1, 4),
    }
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    calls = [(event, *counted[event.name]) for event in profiler.events() if event.name in counted]
    return sum(size * math.prod(call.input_shapes[argument]) for call, argument, size in calls) / 2**20


def peak_mib(model, step, device):
    """Above what lives before a step."""
    if device.type == "cpu":
        # Threads of Gloo may let go of a tensor late, so the least of some steps counts.
        return min(measure.peak_mib(model, step) for _ in range(3))
    measure.clear_gradients(model)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def main(way, file, steps, vocabulary, layers, width, heads, context, batch, on_gpus):
    torch.set_num_threads(1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl")
    else:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = gpt.Gpt(vocabulary, layers, width, heads, context).to(device)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {"mesh": mesh, "mp_policy": half} if on_gpus else {"mesh": mesh}
    for block in model.blocks:
        if way == "fsdp2_compiled":
            block.compile()  # graphs end at the hooks of FSDP2
        fully_shard(block, **options)
    fully_shard(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=not on_gpus, fused=bool(on_gpus))
    torch.manual_seed(1 + dist.get_rank())
    tokens = torch.randint(vocabulary, (batch, context + 1)).to(device)
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    cpu = dist.new_group(backend="gloo")

    def barrier():
        if on_gpus:
            torch.cuda.synchronize()
        dist.barrier(cpu)

    def step():
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()

    for _ in range(4):
        step()
    times = []
    for _ in range(steps):
        barrier()
        begin = time.perf_counter()
        step()
        barrier()
        times.append(1e3 * (time.perf_counter() - begin))
    kept = 3 * local_bytes(model.parameters())
    peak = kept / 2**20 + peak_mib(model, step, device)
    wire = wire_mib(step, gathered=2 if on_gpus else 4)
    if dist.get_rank() == 0:
        with open(file, "w") as out:
            json.dump({"step_ms": times, "peak_mib": peak, "wire_mib": wire}, out)
    barrier()


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
    sys.stdout.flush()
    os._exit(0)  # threads of Gloo may outlive the interpreter
