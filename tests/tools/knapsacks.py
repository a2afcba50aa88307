#!/usr/bin/env python3
"""Random knapsacks, with the items that AOTAutograd's solvers keep.

    knapsacks.py --out tests/data/knapsacks.json

One object per line: `weights` in bytes, `values`, `range` (the bytes of a budget of 1), `ratio`, and the items that `dp` and
`greedy` of torch._functorch._activation_checkpointing.knapsack keep. Values are small integers, so that AOTAutograd's sums in
single precision are exact. Knapsacks whose sums of weights are within a rounding error of the capacity are left out.
"""

import argparse
import json
import pathlib
import random
from fractions import Fraction

import torch
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack, greedy_knapsack


def instance(seed):
    draw = random.Random(seed)
    count = draw.randrange(1, 15)
    largest = draw.choice([3, 40, 1 << 20, 1 << 33])
    weights = [draw.randrange(1, largest + 1) for _ in range(count)]
    values = [draw.choice([1, 1, draw.randrange(1, 1000)]) for _ in range(count)]
    # Some ranges make items weigh less than half a unit, some make half units.
    span = draw.choice([sum(weights), sum(weights) * 3 // 2 + 1, 20000, 1 << 31])
    ratio = draw.choice([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, draw.random()])
    # As choose_saved_values_set computes them.
    memory = [weight / 1e9 / (span / 1e9) for weight in weights]
    if max(memory) > 1e6:
        return instance(seed + 1_000_000)
    exact = [Fraction(weight, span) for weight in weights]
    if greedy_knapsack(exact, values, Fraction(ratio))[1] != greedy_knapsack(memory, values, ratio)[1]:
        return instance(seed + 1_000_000)
    kept = {name: sorted(solve(memory, values, ratio)[1])
            for name, solve in (("dp", dp_knapsack), ("greedy", greedy_knapsack))}
    return {"weights": weights, "values": values, "range": span, "ratio": ratio, **kept}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=400)
    arguments = parser.parse_args()
    lines = [json.dumps(instance(seed)) for seed in range(arguments.count)]
    head = json.dumps({"reference": "torch " + torch.__version__.split("+")[0]}).removesuffix("}")
    arguments.out.write_text(head + ', "knapsacks": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
