#!/usr/bin/env python3
"""The time that a compiled call adds to eager in Python: a function of one operator on a tiny tensor.

    python_call.py --out FILE [--quick] [--threads N]

The same for a function with programs for 256 sizes. Peer: torch.compile with the aot_eager backend. Medians of differences over samples of many calls each, run in turns.
Writes rows for scripts/bench_table.
"""

import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

import antegrad
from common.program import arguments_of, write

CALLS = 200


def double(x):
    return x * 2


def calls_us(function, x, backward):
    start = time.perf_counter()
    for _ in range(CALLS):
        y = function(x)
        if backward:
            torch.autograd.grad(y, x, x)
    return (time.perf_counter() - start) * 1e6 / CALLS


def main():
    arguments = arguments_of(__doc__)
    torch.set_num_threads(arguments.threads)
    samples = 20 if arguments.quick else 200
    x = torch.randn(4, requires_grad=True)
    compiled = antegrad.compile(double)
    among_256 = antegrad.compile(double)
    for size in range(1, 257):
        among_256(torch.randn(size, requires_grad=True))
    dynamo = torch.compile(double, backend="aot_eager")
    through_dynamo = torch.compile(double, backend=antegrad.backend)
    rows = []
    for case, backward in (("python_call", False), ("python_call_and_backward", True)):
        functions = (double, compiled, dynamo, through_dynamo, among_256)
        for function in functions:
            calls_us(function, x, backward)
        times = [[calls_us(f, x, backward) for f in functions] for _ in range(samples)]
        added = [statistics.median(t[i] - t[0] for t in times) for i in range(1, len(functions))]
        row = {"bench": "overhead", "case": case, "metric": "added_us", "value": added[0], "unit": "us",
               "peer": "torch.compile aot_eager", "peer_value": added[1], "ratio": added[0] / added[1]}
        rows.append(row | ({} if backward else {"limit": 12}))
        rows.append(row | {"metric": "through_dynamo_added_us", "value": added[2], "ratio": added[2] / added[1]})
        rows.append(row | {"metric": "among_256_added_us", "value": added[3], "ratio": added[3] / added[1]})
    for function, programs in ((compiled, 1), (among_256, 256)):
        report = function.report()
        assert report.eager_calls == 0, "a compiled call ran eagerly"
        assert len(report.programs) == programs, f"{len(report.programs)} programs instead of {programs}"
    write(arguments, rows)


if __name__ == "__main__":
    sys.exit(main())
