"""Memory and time of training steps under AOTAutograd's activation_memory_budget.

peers/budget.py BUDGETS SECONDS gpt|resnet|mlp WORD...    words as in subjects.py

BUDGETS equally spaced budgets from 0 to 1, under torch.compile(backend="aot_eager_decomp_partition"), which partitions
and then calls kernels one by one. The ends come first, then midpoints. No budget is begun after SECONDS.

Prints one JSON object. points: by falling budget, each with budget, peak_mib and step_ms of forward and backward, and
recompute_ms, the time that the step takes longer than at budget 1. A budget with the same partition as another one has no
point. not_measured: the budgets for which no time was left.
"""

import json
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

from measure import clear_gradients, peak_mib  # before torch, since it sets the environment

import torch
import torch._dynamo.backends.debugging as backends
import torch._functorch.config as functorch

from subjects import subject

TIMED_STEPS = 3


def coarse_first(count):
    """0 ... count - 1: first the ends, then repeatedly the midpoints between numbers so far."""
    order, step = [count - 1, 0], count - 1
    while step > 1:
        step = (step + 1) // 2
        order += [i for i in range(0, count, step) if i not in order]
    return order


class Partitions:
    """Observes each partition that the backend makes."""

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
