#!/usr/bin/env python3
"""Whole training steps with AdamW from Python: antegrad.compile_step beside eager and beside Inductor with a compiled optimizer.

    python_step.py --out FILE [--quick] [--threads N] [--models gpt mlp]

exact_step_ms, close_step_ms, exact_peak_mib, ...: of a step that begins without gradients. Steps of all variants run in turns,
each on a model of its own; medians. After them the parameters of exact and of eager are compared bit for bit.
Writes rows for scripts/bench_table.
"""

import copy
import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
sys.path.append(os.path.join(os.path.dirname(__file__), "peers"))

import torch

import antegrad
from antegrad._C import AllocationWatch
from common.program import arguments_of, write
from gpt import Gpt
from models import Mlp

MIB = 2**20


def model_and_batch(name):
    if name == "gpt":
        return Gpt(512, 6, 384, 6, 256), *(torch.randint(512, (8, 256)) for _ in range(2))
    return Mlp(8, 512, 0.1), torch.randn(4096, 512), torch.randn(4096, 512)


def separate(loss, optimizer, update):
    """The loop that one would write; the gradients are freed at its end."""

    def step(*batch):
        value = loss(*batch)
        value.backward()
        update()
        optimizer.zero_grad()
        return value.detach()

    return step


def eager(model, optimizer):
    return separate(model, optimizer, optimizer.step)


def inductor(model, optimizer):
    return separate(torch.compile(model), optimizer, torch.compile(optimizer.step))


def whole(lowering):
    return lambda model, optimizer: antegrad.compile_step(model, optimizer, model, lowering=lowering)


VARIANTS = {"eager": eager, "inductor": inductor, "exact": whole("exact"), "close": whole("close")}


class Variant:
    def __init__(self, model, batch, make):
        self.model = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.step, self.batch, self.times, self.steps = make(self.model, optimizer), batch, [], 0
        for _ in range(3):
            self.run()
        watch = AllocationWatch("cpu")
        self.run()
        watch.stop()
        self.peak = watch.peak_bytes / MIB

    def run(self):
        torch.manual_seed(self.steps)
        self.steps += 1
        start = time.perf_counter()
        self.step(*self.batch)
        return (time.perf_counter() - start) * 1e3

    @property
    def step_ms(self):
        return statistics.median(self.times)


def measure(name, rounds):
    torch.manual_seed(0)
    model, *batch = model_and_batch(name)
    variants = {variant: Variant(model, batch, make) for variant, make in VARIANTS.items()}
    for _ in range(rounds):
        for variant in variants.values():
            variant.times.append(variant.run())
    for ours, theirs in zip(variants["exact"].model.parameters(), variants["eager"].model.parameters()):
        if not torch.equal(ours, theirs):
            raise SystemExit(f"{name}: exact steps differ from eager's")
    rows = []
    for level in ("exact", "close"):
        for metric, unit, of in (("step_ms", "ms", "step_ms"), ("peak_mib", "MiB", "peak")):
            for peer in ("eager", "inductor"):
                value, beside = getattr(variants[level], of), getattr(variants[peer], of)
                rows.append({"bench": "python_step", "case": name, "metric": f"{level}_{metric}", "value": value, "unit": unit,
                             "peer": peer, "peer_value": beside, "ratio": value / beside})
    return rows


def main():
    def add(parser):
        parser.add_argument("--models", nargs="+", default=("gpt", "mlp"), choices=("gpt", "mlp"))

    arguments = arguments_of(__doc__, add)
    torch.set_num_threads(arguments.threads)
    rows = []
    for name in arguments.models:
        rows += measure(name, 5 if arguments.quick else 21)
        write(arguments, rows)


if __name__ == "__main__":
    sys.exit(main())
