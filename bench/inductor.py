#!/usr/bin/env python3
"""Training steps under Inductor with antegrad's partitions, in shares of the memory that Inductor's own partition takes.

    inductor.py --out FILE [--quick] [--threads N] [--device cuda] [--models gpt mlp resnet] [--budgets 75 50 35 1024MiB]

peak_mib and step_ms: of forward, loss and backward, with antegrad.inductor(memory_budget=...). Peers: inductor, as it is;
inductor_ratio, the fastest of Inductor's steps with an activation_memory_budget whose measured peak is no larger than ours or
the budget: chosen by some rounds and timed in others, because the least of several medians of one run is too low by chance. A
budget in percent is a share of Inductor's own measured peak. first_call_s: compilation and the first step;
settled_s: until no other plan is tried. partition_ms: of the joint graph. Steps of all variants run in turns; medians.
Writes rows for scripts/bench_table.
"""

import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
sys.path.append(os.path.join(os.path.dirname(__file__), "peers"))

import torch
import torch._dynamo
import torch._functorch.config as functorch
import torch._inductor.compile_fx as inductor

import antegrad
from antegrad._C import AllocationWatch
from common.program import arguments_of, write
from gpt import Gpt
from measure import clear_gradients
from models import Mlp, ResNet, ResNet50

MIB = 2**20
RATIOS = (0.75, 0.5, 0.25, 0.1, 0.0)
SETTLING_STEPS = 12


def on_cpu(name):
    if name == "gpt":
        return Gpt(512, 6, 384, 6, 256), *(torch.randint(512, (4, 256)) for _ in range(2))
    if name == "mlp":
        return Mlp(8, 512, 0.1), torch.randn(2048, 512), torch.randn(2048, 512)
    return ResNet(10, 2, (32, 64, 128)), torch.randn(32, 3, 32, 32), torch.randint(10, (32,))


def on_gpu(name):
    """GPT-2 small, an MLP of 24 layers of 2048, ResNet-50, in bf16."""
    if name == "gpt":
        model, *batch = Gpt(50304, 12, 768, 12, 1024), *(torch.randint(50304, (8, 1024)) for _ in range(2))
    elif name == "mlp":
        model, *batch = Mlp(24, 2048, 0.0), torch.randn(8192, 2048), torch.randn(8192, 2048)
    else:
        model, *batch = ResNet50(), torch.randn(64, 3, 224, 224), torch.randint(1000, (64,))
    moved = [x.to("cuda", torch.bfloat16) if x.is_floating_point() else x.cuda() for x in batch]
    return model.to("cuda", torch.bfloat16), *moved


class Variant:
    """One way to compile the step of a model."""

    def __init__(self, model, batch, backend):
        self.model, self.batch = model, batch
        self.backend = backend
        self.compiled = torch.compile(model, backend=backend)
        self.times = []
        start = time.perf_counter()
        self.step()
        self.first_call_s = time.perf_counter() - start
        graphs = getattr(backend, "graphs", [])
        for _ in range(SETTLING_STEPS):
            self.step()
            if all(graph.source is None for graph in graphs):
                break
        self.settled_s = time.perf_counter() - start
        self.peak = self.measured_peak()

    def step(self):
        clear_gradients(self.model)
        self.compiled(*self.batch).backward()
        if self.batch[0].is_cuda:
            torch.cuda.synchronize()

    def measured_peak(self):
        clear_gradients(self.model)
        if self.batch[0].is_cuda:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.step()
            return torch.cuda.max_memory_allocated() - before
        watch = AllocationWatch("cpu")
        self.step()
        watch.stop()
        return watch.peak_bytes

    def time_once(self):
        start = time.perf_counter()
        self.step()
        self.times.append((time.perf_counter() - start) * 1e3)

    @property
    def step_ms(self):
        return statistics.median(self.times)


class TimedPartitions:
    """Times Inductor's own partitioner."""

    def __init__(self):
        self.partition = inductor.min_cut_rematerialization_partition
        self.ms = []
        inductor.min_cut_rematerialization_partition = self

    def __call__(self, *args, **kwargs):
        start = time.perf_counter()
        result = self.partition(*args, **kwargs)
        self.ms.append((time.perf_counter() - start) * 1e3)
        return result


def with_ratio(ratio):
    def backend(module, inputs):
        with functorch.patch(activation_memory_budget=ratio):
            return inductor.compile_fx(module, inputs)

    return backend


def time_in_turns(variants, rounds):
    for variant in variants:
        variant.times = []
    for _ in range(rounds):
        for variant in variants:
            variant.time_once()


def measure(name, arguments, partitions):
    torch.manual_seed(0)
    model, *batch = (on_gpu if arguments.device == "cuda" else on_cpu)(name)
    own = Variant(model, batch, with_ratio(1.0))
    own_partition_ms = partitions.ms[-1]
    ratios = [Variant(model, batch, with_ratio(ratio)) for ratio in arguments.ratios]
    held = {}
    for budget in arguments.budgets:
        in_bytes = budget if "iB" in budget else int(own.peak * int(budget) / 100)
        held[budget] = Variant(model, batch, antegrad.inductor(memory_budget=in_bytes))
    time_in_turns((own, *ratios, *held.values()), arguments.rounds)
    for ratio, variant in zip(arguments.ratios, ratios):
        print(f"  {name}: activation_memory_budget {ratio}: {variant.peak / MIB:.0f} MiB, {variant.step_ms:.1f} ms")
    fastest = {}
    for budget, variant in held.items():
        small = [other for other in (own, *ratios) if other.peak <= max(variant.backend.budget, variant.peak)]
        if small:
            fastest[budget] = min(small, key=lambda other: other.step_ms)
    time_in_turns({own, *fastest.values(), *held.values()}, arguments.rounds)
    rows = []
    for budget, variant in held.items():
        print(f"  {name}@{budget}: {variant.backend.records}")
        case = f"{name}@{budget}" + ("" if "iB" in budget else "%")
        limit = variant.backend.budget

        def add(metric, unit, value, peer, peer_value):
            rows.append({"bench": "inductor", "case": case, "metric": metric, "value": value, "unit": unit, "peer": peer,
                         "peer_value": peer_value, "ratio": value / peer_value})

        add("peak_mib", "MiB", variant.peak / MIB, "budget", limit / MIB)
        add("peak_mib", "MiB", variant.peak / MIB, "inductor", own.peak / MIB)
        add("step_ms", "ms", variant.step_ms, "inductor", own.step_ms)
        add("first_call_s", "s", variant.first_call_s, "inductor", own.first_call_s)
        add("settled_s", "s", variant.settled_s, "inductor", own.settled_s)
        if budget in fastest:
            add("step_ms", "ms", variant.step_ms, "inductor_ratio", fastest[budget].step_ms)
        record = variant.backend.records[0]
        add("partition_ms", "ms", record.seconds * 1e3, "inductor", own_partition_ms)
    return rows


def main():
    def add(parser):
        parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
        parser.add_argument("--models", nargs="+", default=("gpt", "mlp", "resnet"), choices=("gpt", "mlp", "resnet"))
        parser.add_argument("--budgets", nargs="+", default=("75", "50", "35"), help="percent, or bytes such as 1024MiB")
        parser.add_argument("--ratios", nargs="*", type=float, default=RATIOS)
        parser.add_argument("--rounds", type=int, help="of turns; 15, or 5 with --quick")

    arguments = arguments_of(__doc__, add)
    arguments.rounds = arguments.rounds or (5 if arguments.quick else 15)
    torch.set_num_threads(arguments.threads)
    torch._inductor.config.force_disable_caches = True
    torch._dynamo.config.cache_size_limit = 64
    partitions = TimedPartitions()
    rows = []
    for name in arguments.models:
        rows += measure(name, arguments, partitions)
        write(arguments, rows)


if __name__ == "__main__":
    sys.exit(main())
