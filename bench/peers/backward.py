"""The time of PyTorch's compiled autograd to capture and compile the backward of a GPT in eager mode.

peers/backward.py BACKEND THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH

Prints one JSON object. first_call_ms: the time of the first backward beyond that of the engine. later_ms: that of later ones.
"""

import json
import os
import statistics
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

from gpt import from_command_line


def main():
    backend = sys.argv[1]
    model, tokens, targets = from_command_line(sys.argv[2:])

    def backward_ms(scope=None):
        for parameter in model.parameters():
            parameter.grad = None
        loss = model(tokens, targets)
        start = time.perf_counter()
        if scope is None:
            loss.backward()
        else:
            with scope():
                loss.backward()
        return (time.perf_counter() - start) * 1e3

    def compiled():
        return torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend))

    with tempfile.TemporaryDirectory() as empty:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
        engine = statistics.median([backward_ms() for _ in range(4)][1:])
        first = backward_ms(compiled)
        later = statistics.median([backward_ms(compiled) for _ in range(4)][1:])
    print(json.dumps({"first_call_ms": first - engine, "later_ms": later, "engine_ms": engine}))


main()
