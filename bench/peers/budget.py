"""What training steps take in bytes and in time under the reference's activation_memory_budget.

peers/budget.py BUDGETS SECONDS gpt THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH
peers/budget.py BUDGETS SECONDS resnet THREADS BATCH IMAGE CLASSES BLOCKS WIDTH...
peers/budget.py BUDGETS SECONDS mlp THREADS BATCH LAYERS WIDTH DROPOUT

BUDGETS equally spaced ones from 0 to 1, under torch.compile(backend="aot_eager_decomp_partition"), which partitions
and then calls kernels one by one. After SECONDS no other one is begun; those in between come last.

Prints one JSON object: points, by falling budget, each with budget, peak_mib and step_ms of forward and backward, and
recompute_ms, what the step takes longer than at budget 1; a budget that leads to the partition of another one has no
point. not_measured are the budgets for which there was no time.
"""

import json
import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's remarks on itself

import torch
import torch._dynamo.backends.debugging as backends
import torch._functorch.config as functorch
from torch.profiler import ProfilerActivity, profile

import gpt
from models import Mlp, ResNet

TIMED_STEPS = 3


def subject(name, words):
    """The model and its batch."""
    if name == "gpt":
        return gpt.from_command_line(words)
    threads, batch = map(int, words[:2])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if name == "resnet":
        image, classes, blocks, *widths = map(int, words[2:])
        images = torch.randn(batch, 3, image, image)
        return ResNet(classes, blocks, widths), images, torch.randint(classes, (batch,))
    layers, width = map(int, words[2:4])
    return Mlp(layers, width, float(words[4])), torch.randn(batch, width), torch.randn(batch, width)


def coarse_first(count):
    """0 ... count - 1: the ends, then the middles of what lies between two that are there."""
    order, step = [count - 1, 0], count - 1
    while step > 1:
        step = (step + 1) // 2
        order += [i for i in range(0, count, step) if i not in order]
    return order


def clear_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


def peak_mib(model, step):
    """The most bytes alive through the CPU's allocator during the step, less those alive before."""
    clear_gradients(model)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    live = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    return most / 2**20


class Partitions:
    """Sees each partition that the backend makes."""

    def __init__(self):
        self.partition = backends.min_cut_rematerialization_partition
        self.latest = None
        backends.min_cut_rematerialization_partition = self

    def __call__(self, *args, **kwargs):
        forward, backward = self.partition(*args, **kwargs)
        self.latest = hash((forward.code, backward.code))
        return forward, backward


def main():
    count, seconds, name, *words = sys.argv[1:]
    start = time.perf_counter()
    model, inputs, targets = subject(name, words)
    partitions, seen, points, not_measured = Partitions(), set(), [], []

    for i in coarse_first(int(count)):
        budget = round(i / (int(count) - 1), 4)
        if time.perf_counter() - start > float(seconds):
            not_measured.append(budget)
            continue
        torch._dynamo.reset()
        functorch.activation_memory_budget = budget
        compiled = torch.compile(model, backend="aot_eager_decomp_partition")

        def step():
            clear_gradients(model)
            compiled(inputs, targets).backward()

        step()
        if partitions.latest in seen:
            continue
        seen.add(partitions.latest)
        times = []
        for _ in range(TIMED_STEPS):
            before = time.perf_counter()
            step()
            times.append((time.perf_counter() - before) * 1e3)
        points.append({
            "budget": budget,
            "peak_mib": peak_mib(model, step),
            "step_ms": statistics.median(times),
        })

    for point in points:
        point["recompute_ms"] = point["step_ms"] - points[0]["step_ms"]
    print(json.dumps({"points": sorted(points, key=lambda point: -point["budget"]), "not_measured": not_measured}))


main()
