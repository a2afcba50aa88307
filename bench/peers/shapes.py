"""The total time of training steps of a GPT with other sizes in each: torch.compile(dynamic=True) and eager, in turns.

peers/shapes.py BACKEND THREADS VOCABULARY LAYERS WIDTH HEADS CONTEXT BATCH ROWSxLENGTH...

Prints one JSON object: total_s and eager_s.
"""

import json
import sys
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch

from gpt import from_command_line


def main():
    backend, *words = sys.argv[1:]
    model, tokens, targets = from_command_line(words[:7])
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def seconds(function, *arguments):
        model.zero_grad(set_to_none=True)
        start = time.perf_counter()
        function(*arguments).backward()
        return time.perf_counter() - start

    eager_s = total_s = 0.0
    for word in words[7:]:
        rows, length = map(int, word.split("x"))
        arguments = tokens[:rows, :length].contiguous(), targets[:rows, :length].contiguous()
        eager_s += seconds(model, *arguments)
        total_s += seconds(compiled, *arguments)
    print(json.dumps({"total_s": total_s, "eager_s": eager_s}))


main()
