"""The time that torch.compile adds to a function of ten operators on tiny tensors, forward and backward.

peers/overhead.py THREADS SAMPLES CALLS

Prints one JSON object: added_us, the median over SAMPLES of CALLS calls each, run in turns with
eager.
"""

import json
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch


def ten_operators(x, w, b):
    h = torch.tanh(x * w + b)
    h = torch.sigmoid(h * w) + x
    h = torch.relu(h - b) * w
    return h.sum()


def main():
    threads, samples, calls = map(int, sys.argv[1:])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.randn(4, 4)
    w, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    compiled = torch.compile(ten_operators, backend="aot_eager")

    def step_us(function):
        start = time.perf_counter()
        for _ in range(calls):
            w.grad = b.grad = None
            function(x, w, b).backward()
        return (time.perf_counter() - start) * 1e6 / calls

    step_us(compiled), step_us(ten_operators)
    pairs = [(step_us(compiled), step_us(ten_operators)) for _ in range(samples)]
    print(json.dumps({
        "added_us": statistics.median(c - e for c, e in pairs),
        "eager_us": statistics.median(e for _, e in pairs),
    }))


main()
